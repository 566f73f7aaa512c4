package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a child that does not outlive this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been reaped
	err  error         // how it ended; read after done
}

// startProcess starts cmd in a process group of its own, so that a terminal's Ctrl-C reaches only us and the child is
// stopped in order; if we die first, the kernel sends it onDeath.
//
// The kernel ties that signal to the *thread* that forked. So the goroutine that starts the child keeps its thread until
// the child is gone, which costs nothing: it has to wait for it anyway.
func startProcess(cmd *exec.Cmd, onDeath syscall.Signal) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = onDeath
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// exited says whether the child is gone.
func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop sends the signals one after another, each with its time to take effect, and SIGKILL at the end. An ended context
// skips the waiting, not the killing.
func (p *process) stop(ctx context.Context, patience time.Duration, signals ...syscall.Signal) {
	for _, s := range signals {
		if p.exited() {
			return
		}
		_ = p.cmd.Process.Signal(s)
		select {
		case <-p.done:
			return
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ready polls probe until it succeeds, the child ends or ctx does; what names the child in errors, log is where it writes.
func (p *process) ready(ctx context.Context, what, log string, probe func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting: %w\n%s", what, orUnknown(p.err), tail(log))
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %w: %w\n%s", what, ctx.Err(), err, tail(log))
		case <-tick.C:
		}
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// tail returns the last lines of a log file for an error message.
func tail(path string) string {
	const lines = 15
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return path + ":\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}

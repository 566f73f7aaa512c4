package daemon

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

// Process is a child that does not outlive this process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been reaped
	err  error         // how it ended; read after done
}

// Start starts cmd in a separate process group. So a terminal's Ctrl-C reaches only this process,
// which stops the child in order. If this process dies first, the kernel sends onDeath to the
// child.
//
// The kernel ties that signal to the *thread* that forked. So the goroutine that starts the child
// keeps its thread until the child is gone. That costs nothing, because it waits for the child
// anyway.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = onDeath
	p := &Process{cmd: cmd, done: make(chan struct{})}
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited reports whether the child is gone.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop sends the signals one after another, each with its time to take effect, and finally SIGKILL.
// An ended context skips the waiting, but not the kill.
func (p *Process) Stop(ctx context.Context, patience time.Duration, signals ...syscall.Signal) {
	for _, s := range signals {
		if p.Exited() {
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

// Ready polls probe until it succeeds, the child ends or ctx ends. what is the name of the child in
// errors, log its log file.
func (p *Process) Ready(ctx context.Context, what, log string, probe func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting: %w\n%s", what, p.Err(), Tail(log))
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %w: %w\n%s", what, ctx.Err(), err, Tail(log))
		case <-tick.C:
		}
	}
}

// Done is closed when the child has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the child ended and is never nil. Call it only after Done is closed.
func (p *Process) Err() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Killed reports whether a signal ended the process. Call it only after Done is closed.
func (p *Process) Killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// Tail returns the last lines of a log file for an error message.
func Tail(path string) string {
	const lines = 15
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return path + ":\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}

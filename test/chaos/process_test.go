package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process is one dispatcher or worker, and the links that it hangs on.
type process struct {
	name, path, log string
	args, env       []string
	nats, postgres  *link // nats: none to a cluster; postgres: of dispatchers only, of a pair the first

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{}
	kept    bool // started again when it ends by itself
	stopped bool
	wg      sync.WaitGroup
}

// start starts it, again if it was stopped.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = false
	if err := p.launch(); err != nil {
		t.Fatal(err)
	}
}

// launch is called with mu held.
func (p *process) launch() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// It dies with the test, of which the kernel knows only the thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	p.wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(ended)
			p.again(cmd)
		}
	})
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.ended = cmd, ended
	return nil
}

// keep has it started again whenever it ends by itself.
func (p *process) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = true
}

// again is what a supervisor does.
func (p *process) again(ended *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.kept || p.stopped || p.cmd != ended {
		return
	}
	_ = p.launch()
}

func (p *process) signal(s unix.Signal) (ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	_ = p.cmd.Process.Signal(s)
	return p.ended
}

// kill is kill -9; it stays dead until started, unless it is kept.
func (p *process) kill() { <-p.signal(unix.SIGKILL) }

func (p *process) pause()  { p.signal(unix.SIGSTOP) }
func (p *process) resume() { p.signal(unix.SIGCONT) }

// term asks it to end and waits.
func (p *process) term(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	select {
	case <-p.signal(unix.SIGTERM):
	case <-time.After(time.Minute):
		t.Errorf("%s does not end on SIGTERM", p.name)
		p.kill()
	}
}

// restart is what a rolling upgrade does to it.
func (p *process) restart(t *testing.T) {
	t.Helper()
	p.term(t)
	p.start(t)
}

// end leaves nothing of it.
func (p *process) end(t *testing.T) {
	p.resume()
	p.term(t)
	p.wg.Wait()
}

// peak is the most memory that the running process has had, in bytes.
func (p *process) peak(t *testing.T) int {
	t.Helper()
	p.mu.Lock()
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatalf("process %d has no VmHWM", pid)
	return 0
}

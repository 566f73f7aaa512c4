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

// A process is one dispatcher or worker, with its links.
type process struct {
	name, path, log string
	args, env       []string
	nats, postgres  *link // nats: none to a cluster; postgres: of dispatchers only, to the first of a pair

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{}
	kept    bool // restarted when it ends by itself
	stopped bool
	wg      sync.WaitGroup
}

// start starts the process, also after a stop.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = false
	if err := p.launch(); err != nil {
		t.Fatal(err)
	}
}

// launch starts the command. The caller holds mu.
func (p *process) launch() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// It dies with the test's thread, which is all that the kernel can watch.
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

// keep restarts the process whenever it ends by itself.
func (p *process) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = true
}

// again restarts the process like a supervisor.
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

// kill is kill -9. The process stays dead until it is started, unless it is kept.
func (p *process) kill() { <-p.signal(unix.SIGKILL) }

func (p *process) pause()  { p.signal(unix.SIGSTOP) }
func (p *process) resume() { p.signal(unix.SIGCONT) }

// term asks the process to end and waits.
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

// restart stops and starts the process like a rolling upgrade.
func (p *process) restart(t *testing.T) {
	t.Helper()
	p.term(t)
	p.start(t)
}

// end stops the process for good.
func (p *process) end(t *testing.T) {
	p.resume()
	p.term(t)
	p.wg.Wait()
}

// peak returns the peak memory of the running process, in bytes.
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

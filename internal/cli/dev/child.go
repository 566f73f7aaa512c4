package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/assay-run/assay/internal/daemon"
)

// child is one of our own programs. It is restarted when it dies, because a fleet heals, but not if
// it repeatedly fails to start.
type child struct {
	name, path, logFile string
	env                 []string      // the complete environment
	patience            time.Duration // from SIGTERM to SIGKILL
	copyTo              io.Writer     // also receives its log; nil: only the file
	log                 *slog.Logger

	mu       sync.Mutex
	current  *daemon.Process
	stopping bool
	gaveUp   error
	quit     chan struct{}
	done     chan struct{} // closed when no process is left and none will be started
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// A child that lived this long was healthy: the pause starts at the minimum again.
	healthyAfter = 5 * time.Second
	// A child that exits this often in a row after a short life is given up.
	maxDeaths = 8
)

// start starts the program and keeps it running until stop.
func (c *child) start() error {
	c.quit, c.done = make(chan struct{}), make(chan struct{})
	p, log, err := c.launch()
	if err != nil {
		close(c.done)
		return err
	}
	go func() {
		defer close(c.done)
		c.keep(p, log)
	}()
	return nil
}

// launch starts one process. It appends to the log, so that the reason of a crash is still there
// after the restart.
func (c *child) launch() (*daemon.Process, *os.File, error) {
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log of %s: %w", c.name, err)
	}
	cmd := exec.Command(c.path)
	cmd.Env = c.env
	cmd.Stdout, cmd.Stderr = log, log
	if c.copyTo != nil {
		both := io.MultiWriter(log, c.copyTo)
		cmd.Stdout, cmd.Stderr = both, both
		// do not wait for a grandchild that keeps the pipe open
		cmd.WaitDelay = time.Second
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		log.Close()
		return nil, nil, errStopping
	}
	p, err := daemon.Start(cmd, syscall.SIGKILL)
	if err != nil {
		log.Close()
		return nil, nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	c.current = p
	return p, log, nil
}

var errStopping = errors.New("stopping")

// keep waits for the process to die, and restarts it after a growing pause.
func (c *child) keep(p *daemon.Process, log *os.File) {
	pause, deaths := firstPause, 0
	for {
		born := time.Now()
		<-p.Done()
		log.Close()
		// A killed child counts as healthy: it must come back.
		if time.Since(born) > healthyAfter || p.Killed() {
			pause, deaths = firstPause, 0
		}
		if deaths++; deaths == maxDeaths {
			c.giveUp(fmt.Errorf("%s keeps ending: %w\n%s", c.name, p.Err(), daemon.Tail(c.logFile)))
			return
		}
		select {
		case <-c.quit:
			return
		case <-time.After(pause):
		}
		c.log.Warn("program ended; restarting it", "program", c.name, "error", p.Err(), "log", c.logFile)
		pause = min(2*pause, maxPause)
		var err error
		if p, log, err = c.launch(); err != nil {
			if !errors.Is(err, errStopping) {
				c.giveUp(err)
			}
			return
		}
	}
}

func (c *child) giveUp(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaveUp = why
	c.log.Error("program ended too often; not restarting it", "program", c.name, "error", why)
}

// failure returns the reason why the program is no longer restarted, or nil.
func (c *child) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gaveUp
}

// stop ends the program permanently: SIGTERM, and SIGKILL after its patience.
func (c *child) stop(ctx context.Context) error {
	c.mu.Lock()
	already := c.stopping
	c.stopping = true
	p := c.current
	c.mu.Unlock()
	if !already {
		close(c.quit)
	}
	p.Stop(ctx, c.patience, syscall.SIGTERM)
	<-c.done
	return nil
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/policy"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = 90 * time.Second
)

// target is the measured fleet.
type target struct {
	*client.Client
	url string
	cmd *exec.Cmd // of the bench's own `assay dev`; nil if ASSAY_URL names a fleet
	dir string
}

// errNotOurs is the error of scenarios that need to inspect the fleet's processes.
var errNotOurs = errors.New("this scenario measures a fleet of its own; unset ASSAY_URL")

// target returns the fleet to measure, with extra environment if it is the bench's own.
func (b *bench) target(ctx context.Context, env ...string) (*target, error) {
	t := &target{url: os.Getenv("ASSAY_URL")}
	if t.url == "" {
		b.logf("starting a fleet")
		if err := t.start(ctx, b, env); err != nil {
			return nil, errors.Join(err, t.stop())
		}
	}
	var err error
	if t.Client, err = client.New(t.url, client.WithToken(os.Getenv("ASSAY_TOKEN"))); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

func (t *target) start(ctx context.Context, b *bench, env []string) (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	assay := filepath.Join(filepath.Dir(exe), "assay")
	if _, err := os.Stat(assay); err != nil {
		return fmt.Errorf("%s is missing: run make build", assay)
	}
	if t.dir, err = os.MkdirTemp("", "assay-bench-"); err != nil {
		return err
	}
	if err := os.Chmod(t.dir, 0o755); err != nil { // Postgres and sandboxes run as other users
		return err
	}
	t.cmd = exec.Command(assay, "dev", "--data", filepath.Join(t.dir, "data"), "--listen", "127.0.0.1:0")
	t.cmd.Env = append(os.Environ(), env...)
	t.cmd.Stderr = b.log
	if b.verbose {
		t.cmd.Args = append(t.cmd.Args, "--verbose")
		t.cmd.Stderr = os.Stderr
	}
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM} // ^C for the bench must not reach it
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := t.cmd.Start(); err != nil {
		t.cmd = nil
		return err
	}
	return t.ready(ctx, out)
}

// ready waits for the line with the address of the API.
func (t *target) ready(ctx context.Context, out io.Reader) error {
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for s := bufio.NewScanner(out); s.Scan(); {
			if _, url, ok := strings.Cut(s.Text(), "ready on "); ok {
				found <- url
			}
		}
	}()
	select {
	case url, ok := <-found:
		if !ok {
			return errors.New("assay dev ended before it was ready; -v shows why")
		}
		t.url = url
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("assay dev was not ready within %v", startTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the bench's own fleet and removes its data.
func (t *target) stop() error {
	if t.cmd == nil {
		return errors.Join(removeAll(t.dir))
	}
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopTimeout, func() { _ = t.cmd.Process.Kill() })
	defer kill.Stop()
	err := t.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("assay dev: %w", err)
	}
	return errors.Join(err, removeAll(t.dir))
}

func removeAll(dir string) error {
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// cellTarget is target with the isolation for scenarios of cells: cell, or a replacement, which the
// note then explains.
func (b *bench) cellTarget(ctx context.Context, env ...string) (t *target, isolation policy.Isolation, note string, err error) {
	if t, err = b.target(ctx, env...); err != nil {
		return nil, "", "", err
	}
	if isolation, note, err = t.isolation(ctx, policy.Cell); err != nil {
		t.stopped(&err)
		return nil, "", "", err
	}
	return t, isolation, note, nil
}

// isolation returns the isolation to measure: the wanted one if a worker offers it, else task, with
// a note.
func (t *target) isolation(ctx context.Context, want policy.Isolation) (policy.Isolation, string, error) {
	workers, err := t.Workers(ctx)
	if err != nil {
		return "", "", err
	}
	for _, w := range workers {
		if strings.Contains(string(w.Host), `"`+string(want)+`"`) {
			return want, "", nil
		}
	}
	return policy.Task, fmt.Sprintf("no worker offers isolation %s yet: measured with task", want), nil
}

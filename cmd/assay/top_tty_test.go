package main

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/assay-run/assay/pkg/job"
)

// TestTopOnATerminal: the screen shows the fleet, and q leaves it.
func TestTopOnATerminal(t *testing.T) {
	s := newServer(t, job.Result{})
	s.fleet = someFleet(t)
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(screen, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shown bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() {
		for buf := make([]byte, 4096); ; {
			n, err := screen.Read(buf)
			mu.Lock()
			shown.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := make(chan int, 1)
	var errs bytes.Buffer
	go func() { code <- run(ctx, []string{"--url", s.URL, "top"}, tty, tty, &errs) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for there := false; !there && ctx.Err() == nil; <-tick.C {
		mu.Lock()
		there = bytes.Contains(shown.Bytes(), []byte("80000"))
		mu.Unlock()
	}
	if _, err := screen.WriteString("q"); err != nil {
		t.Error(err)
	}
	if c := <-code; c != 0 || ctx.Err() != nil {
		mu.Lock()
		t.Errorf("exit code %d, %v: %s\n%q", c, ctx.Err(), errs.String(), shown.String())
		mu.Unlock()
	}
	tty.Close()
	reading.Wait()
	screen.Close()
}

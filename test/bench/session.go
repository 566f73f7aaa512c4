package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// sessions measures an agent's waiting times: the first execute of a new session, the next one, a
// context of 1 MiB, a host function that the client answers, and a copy of the session. All are
// medians, through the API.
func sessions(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, "ASSAY_MEMORY=128Gi")
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	spec := job.SessionSpec{Functions: []string{"ask"}, Policy: json.RawMessage(`{"callbacks": {"allow": ["ask"], "max_calls": 1000000}}`)}
	for range 10 { // warm slots are created on demand
		if _, err := t.session(ctx, spec, nil); err != nil {
			return nil, err
		}
	}
	b.logf("measuring")
	times := map[string][]float64{}
	began, n := time.Now(), 0
	for ; more(b, n, began); n++ {
		if _, err := t.session(ctx, spec, times); err != nil {
			return nil, err
		}
	}
	r = Report{"sessions": n, "seconds": time.Since(began).Seconds()}
	for name, ms := range times {
		slices.Sort(ms)
		r[name] = ms[len(ms)/2]
	}
	return r, t.manySessions(ctx, r)
}

// liveSessions is the number of concurrent sessions, all of one tenant.
const liveSessions = 500

// manySessions opens liveSessions sessions, each with a state of its own, and reads the state of
// each while all are open. It records their cost.
func (t *target) manySessions(ctx context.Context, r Report) error {
	before, err := available()
	if err != nil {
		return err
	}
	ids := make([]job.ID, liveSessions)
	each := func(do func(ctx context.Context, i int) error) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(16)
		for i := range ids {
			g.Go(func() error { return do(ctx, i) })
		}
		return g.Wait()
	}
	execute := func(ctx context.Context, i int, code, want string) error {
		e, err := t.Execute(ctx, ids[i], api.ExecuteRequest{Code: code})
		if err == nil && (e.Outcome != job.Succeeded || e.Stdout.Text != want) {
			err = fmt.Errorf("session %d of %d: %s (%s), %q", i, liveSessions, e.Outcome, e.Message, e.Stdout.Text)
		}
		return err
	}
	began := time.Now()
	err = each(func(ctx context.Context, i int) error {
		s, err := t.CreateSession(ctx, job.SessionSpec{})
		if err != nil {
			return fmt.Errorf("create session %d of %d: %w", i, liveSessions, err)
		}
		ids[i] = s.ID
		return execute(ctx, i, fmt.Sprintf("x = %d", i), "")
	})
	if err != nil {
		return err
	}
	r["live_create_per_s"] = Rate(liveSessions, time.Since(began))
	after, err := available()
	if err != nil {
		return err
	}
	err = each(func(ctx context.Context, i int) error { return execute(ctx, i, "print(x)", fmt.Sprintln(i)) })
	if err != nil {
		return err
	}
	r["live"], r["live_mb_each"] = liveSessions, Round(float64(before-after)/1024/liveSessions, 2)
	return each(func(ctx context.Context, i int) error {
		_, err := t.CloseSession(ctx, ids[i])
		return err
	})
}

// available returns this machine's available memory, in KiB.
func available() (kib int64, err error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); err == nil {
			return kib, nil
		}
	}
	return 0, errors.New("/proc/meminfo does not say what is available")
}

// mebibyte is a context of about 1 MiB.
var mebibyte = strings.Repeat("assay ", 1<<20/6)

// session opens, uses and ends one session, and adds the time of each step to times.
func (t *target) session(ctx context.Context, spec job.SessionSpec, times map[string][]float64) (*job.Session, error) {
	note := func(what string, since time.Time) {
		if times != nil {
			times[what] = append(times[what], job.Milliseconds(time.Since(since)))
		}
	}
	at := time.Now()
	s, err := t.CreateSession(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	note("create_ms", at)
	run := func(code string) error {
		e, err := t.Execute(ctx, s.ID, api.ExecuteRequest{Code: code})
		if err == nil && e.Outcome != job.Succeeded {
			err = fmt.Errorf("%s ended %s: %s", code, e.Outcome, e.Message)
		}
		return err
	}
	if err := run("x = 1"); err != nil {
		return nil, err
	}
	note("cold_ms", at)
	answering, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = t.AnswerCalls(answering, s.ID, map[string]client.HostFunction{
			"ask": func(context.Context, job.HostCall) (any, error) { return 1, nil },
		})
	}()
	if err := run("ask()"); err != nil { // the stream is open now
		return nil, err
	}
	at = time.Now()
	if err := t.SetContext(ctx, s.ID, mebibyte); err != nil {
		return nil, fmt.Errorf("set context: %w", err)
	}
	note("context_ms", at)
	for range 5 {
		at = time.Now()
		if err := run("x += 1"); err != nil {
			return nil, err
		}
		note("warm_ms", at)
		at = time.Now()
		if err := run("ask()"); err != nil {
			return nil, err
		}
		note("callback_ms", at)
	}
	for range 3 {
		at = time.Now()
		copied, err := t.ForkSession(ctx, s.ID)
		if err != nil {
			return nil, fmt.Errorf("fork: %w", err)
		}
		note("fork_ms", at)
		if _, err := t.CloseSession(ctx, copied.ID); err != nil {
			return nil, err
		}
	}
	_, err = t.CloseSession(ctx, s.ID)
	return s, err
}

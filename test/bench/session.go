package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// sessions measures what an agent waits for: the first execute of a new session,
// the next one, and a host function that the client answers. All are medians,
// through the API.
func sessions(ctx context.Context, b *bench) (r report, err error) {
	t, err := b.target(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	spec := job.SessionSpec{Functions: []string{"ask"}, Policy: json.RawMessage(`{"callbacks": {"allow": ["ask"], "max_calls": 1000000}}`)}
	for range 10 { // warm slots are made by demand
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
	r = report{"sessions": n, "seconds": time.Since(began).Seconds()}
	for name, ms := range times {
		slices.Sort(ms)
		r[name] = ms[len(ms)/2]
	}
	return r, nil
}

// session is the life of one: times are added up by what they measure.
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
	_, err = t.CloseSession(ctx, s.ID)
	return s, err
}

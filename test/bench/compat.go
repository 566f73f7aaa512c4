package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/test/bench/stats"
)

const (
	compatClients = 64 // that wait for an answer each, as a trainer has threads
	// compatTimeout is longer than any request that this sends may wait in the fleet.
	compatTimeout = 60 * time.Second
)

// compat measures requests in the format of SandboxFusion from clients that wait for each answer, between two halves of
// batches of the same program, as scenario python has them: what else the machine does, both see. Then there are four
// times as many clients, and in the end as many with programs that work for longer than all of them can be served in
// the time of their requests.
func compat(ctx context.Context, b *bench) (r stats.Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx, "ASSAY_DROP_INS=sandboxfusion")
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	b.logf("warming up")
	if _, err := t.runBatch(ctx, pythonJob(isolation), 50); err != nil {
		return nil, err
	}
	if _, err := t.asks(ctx, prints, compatClients, time.Second); err != nil {
		return nil, err
	}
	var bare outcome
	half := func() error {
		b.logf("submitting batches for %v", b.duration/2)
		o, err := t.batches(ctx, pythonJob(isolation), 0, b.duration/2, 200)
		bare.jobs, bare.took = bare.jobs+o.jobs, bare.took+o.took
		return err
	}
	if err := half(); err != nil {
		return nil, err
	}
	b.logf("asking with %d clients for %v", compatClients, b.duration)
	few, err := t.asks(ctx, prints, compatClients, b.duration)
	if err != nil {
		return nil, err
	}
	if err := half(); err != nil {
		return nil, err
	}
	b.logf("asking with %d clients for %v", 4*compatClients, b.duration)
	many, err := t.asks(ctx, prints, 4*compatClients, b.duration)
	if err != nil {
		return nil, err
	}
	b.logf("asking with %d clients for %v, and programs that work for a third of a second", 4*compatClients, b.duration)
	over, err := t.asks(ctx, works, 4*compatClients, b.duration)
	if err != nil {
		return nil, err
	}
	rate, bareRate := few.rate(), stats.Rate(bare.jobs, bare.took)
	r = stats.Report{
		"clients": compatClients, "jobs": few.ok, "seconds": stats.Round(few.took.Seconds(), 3), "jobs_per_s": rate,
		"python_per_s": bareRate, "ratio": stats.Round(rate/bareRate, 3),
		"many_jobs_per_s": many.rate(), "p50_ms": stats.Percentile(few.ms, 0.5), "p99_ms": stats.Percentile(few.ms, 0.99),
		"overload_ok": over.ok, "overload_504": over.late,
		"late": few.late + many.late, "wrong": few.wrong + many.wrong + over.wrong, "other_answers": few.other + many.other + over.other,
	}
	if strange := few.strange + many.strange + over.strange; strange != "" {
		r["other"] = strange
	}
	r.Noted(isolation, note)
	return r, nil
}

// question is a program, and what it is to print.
type question struct{ body, prints string }

var (
	prints = ask(`print(1+1)`, "2\n", 10)
	// works takes a third of a second of a core, of which the machine has a few.
	works = ask("import time\nwhile time.process_time() < 0.3: pass\nprint('done')", "done\n", 2)
)

// ask is a request as verl sends it, with the same limit for compiling as for running, in seconds.
func ask(code, prints string, limit float64) question {
	body, _ := json.Marshal(map[string]any{ // of strings and numbers
		"compile_timeout": limit, "run_timeout": limit, "code": code, "stdin": nil, "memory_limit_MB": 256, "language": "python",
		"files": map[string]string{}, "fetch_files": []string{},
	})
	return question{string(body), prints}
}

// asked counts answers.
type asked struct {
	ok, late, wrong, other int
	strange                string // the first answer of another kind
	ms                     []float64
	took                   time.Duration
}

func (a *asked) rate() float64 { return stats.Rate(a.ok, a.took) }

// asks has clients send a question again and again for d.
func (t *target) asks(ctx context.Context, q question, clients int, d time.Duration) (all asked, err error) {
	c := &http.Client{Timeout: compatTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer c.CloseIdleConnections()
	var mu sync.Mutex
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for range clients {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil && failed.Load() == nil {
				sent := time.Now()
				status, body, err := t.ask(ctx, c, q)
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				mu.Lock()
				all.count(q, status, body, float64(time.Since(sent).Microseconds())/1000)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all.took = time.Since(began)
	if e := failed.Load(); e != nil {
		return all, fmt.Errorf("ask in the format of SandboxFusion: %w", *e)
	}
	return all, ctx.Err()
}

func (t *target) ask(ctx context.Context, c *http.Client, q question) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/sandboxfusion/run_code", bytes.NewReader([]byte(q.body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// count judges one answer.
func (a *asked) count(q question, status int, body []byte, ms float64) {
	var got struct {
		Status    string
		RunResult struct{ Stdout string } `json:"run_result"`
	}
	switch {
	case status == http.StatusGatewayTimeout:
		a.late++
		return
	case status != http.StatusOK || json.Unmarshal(body, &got) != nil || got.Status == "SandboxError":
		a.other++
	case got.Status != "Success" || got.RunResult.Stdout != q.prints:
		a.wrong++
	default:
		a.ok++
		a.ms = append(a.ms, ms)
		return
	}
	if a.strange == "" {
		a.strange = fmt.Sprintf("%d %.500s", status, body)
	}
}

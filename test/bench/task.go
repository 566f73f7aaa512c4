package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/containerd"
	"github.com/assay-run/assay/pkg/runtime/containerd/rawloop"
)

// rounds is how often fleet and bare loop alternate, so that other load on the machine affects
// both.
const rounds = 4

// task measures isolation task, alternating with a loop of a bare containerd client.
func task(ctx context.Context, b *bench) (Report, error) { return b.beside(ctx, policy.Task, "") }

// gvisor is task under runsc.
func gvisor(ctx context.Context, b *bench) (_ Report, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	runsc, err := exec.LookPath(filepath.Join(filepath.Dir(self), "runsc"))
	if err != nil {
		runsc, err = exec.LookPath("runsc")
	}
	if err != nil {
		return nil, errors.New("runsc is not installed; build it with: make gvisor")
	}
	dir, err := os.MkdirTemp("", "assay-bench-runsc-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	script := filepath.Join(dir, "runsc")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec "+runsc+` --platform=systrap --network=none "$@"`+"\n"), 0o755); err != nil {
		return nil, err
	}
	return b.beside(ctx, policy.GVisor, script)
}

// beside measures an isolation with a container for each job. binary is the shim's runtime in the
// bare loop; "" is runc.
func (b *bench) beside(ctx context.Context, isolation policy.Isolation, binary string) (r Report, err error) {
	t, err := b.target(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	loop, err := t.rawLoop(ctx)
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	loop.Through(binary)
	if got, _, err := t.isolation(ctx, isolation); err != nil || got != isolation {
		return nil, errors.Join(err, fmt.Errorf("no worker offers isolation %s", isolation))
	}
	spec, parallel := trueJob(isolation), 2*runtime.NumCPU()
	b.logf("warming up")
	if _, err := t.runBatch(ctx, spec, 20); err != nil {
		return nil, err
	}
	if _, _, err := loop.Run(ctx, parallel, time.Second); err != nil {
		return nil, err
	}
	each := b.duration / (2 * rounds)
	var o outcome
	var raw int
	var rawTook time.Duration
	for i := range rounds {
		b.logf("round %d of %d", i+1, rounds)
		n, took, err := loop.Run(ctx, parallel, each)
		if err != nil {
			return nil, fmt.Errorf("bare loop: %w", err)
		}
		raw, rawTook = raw+n, rawTook+took
		part, err := t.batches(ctx, spec, b.n/rounds, each, 25)
		if err != nil {
			return nil, err
		}
		o.add(part)
	}
	ms, err := t.latencies(ctx, o.batches, 5000)
	if err != nil {
		return nil, err
	}
	b.logf("one client that waits, now and then")
	warm, err := t.paced(ctx, pythonJob(isolation))
	if err != nil {
		return nil, err
	}
	r = o.report(ms)
	r.Noted(isolation, "")
	r["warm_p50_ms"], r["warm_p99_ms"] = Percentile(warm, 0.50), Percentile(warm, 0.99)
	r["raw_per_s"] = Rate(raw, rawTook)
	r["ratio"] = Round(Rate(o.jobs, o.took)/Rate(raw, rawTook), 3)
	return r, nil
}

// A client that always finds a warm slot: think is longer than the creation of a slot.
const (
	pacedJobs = 40
	think     = 300 * time.Millisecond
)

// paced runs jobs of one client that pauses before each.
func (t *target) paced(ctx context.Context, spec job.Spec) (ms []float64, err error) {
	for i := range pacedJobs + 5 {
		if err := pause.For(ctx, think); err != nil {
			return nil, err
		}
		sent := time.Now()
		res, err := t.Run(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
		if res.Outcome != job.Succeeded {
			return nil, fmt.Errorf("a paced job ended as %s: %s", res.Outcome, res.Message)
		}
		if i >= 5 { // the first jobs trigger the warm slots
			ms = append(ms, job.Milliseconds(time.Since(sent)))
		}
	}
	return ms, nil
}

// rawLoop opens the bare loop on the containerd of the fleet's worker.
func (t *target) rawLoop(ctx context.Context) (*rawloop.Loop, error) {
	address := os.Getenv("ASSAY_CONTAINERD_ADDRESS")
	if t.cmd != nil {
		w, err := t.child("worker")
		if err != nil {
			return nil, err
		}
		if address, err = w.Env("ASSAY_CONTAINERD_ADDRESS"); err != nil {
			return nil, err
		}
	}
	if address == "" {
		return nil, fmt.Errorf("ASSAY_CONTAINERD_ADDRESS must name the worker's containerd when ASSAY_URL names the fleet")
	}
	return rawloop.Open(ctx, address, containerd.DefaultConfig().Namespace, "assay.local/python:latest", "/bin/true")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/internal/worker"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// fleetSizes are the numbers of simulated workers.
var fleetSizes = []int{1, 10, 100, 1000}

// workerSlots is the number of jobs that a simulated worker holds at once.
const workerSlots = 4

// simulated measures the cost of one job in the control plane (dispatcher, Postgres and NATS), by
// the size of the fleet. The workers are real, each with a connection of its own, but run no
// programs. Their CPU time is not counted.
func simulated(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv, "ASSAY_SLOTS=1") // the fleet's own worker takes almost no jobs
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	own, err := t.child("worker")
	if err != nil {
		return nil, err
	}
	url, err := own.Env("ASSAY_NATS_URL")
	if err != nil {
		return nil, err
	}
	dispatcher, err := t.child("dispatcher")
	if err != nil {
		return nil, err
	}
	text, err := dispatcher.Env("ASSAY_WORKERS_KEY")
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(strings.TrimPrefix(text, "@"))
	if err != nil {
		return nil, err
	}
	key, err := identity.ParseKey(string(raw))
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelError}))
	slog.SetDefault(log)
	n := b.n
	if n == 0 {
		n = 20_000
	}
	cost, speed := map[string]float64{}, map[string]float64{}
	var sum outcome
	for _, size := range fleetSizes {
		b.logf("%d workers", size)
		o, cpu, err := t.withWorkers(ctx, url, key, size, n)
		if err != nil {
			return nil, fmt.Errorf("%d workers: %w", size, err)
		}
		name := fmt.Sprint(size)
		cost[name] = Round(1000*cpu.Seconds()/float64(n), 4)
		speed[name] = Rate(o.jobs, o.took)
		sum.add(o)
	}
	ms, err := t.latencies(ctx, sum.batches, 4000)
	if err != nil {
		return nil, err
	}
	r = sum.report(ms)
	r["cost_per_job_ms"], r["jobs_per_s_by_size"] = cost, speed
	r["note"] = "costs are CPU time of dispatcher, Postgres and NATS; idle heartbeats of the workers are in them"
	return r, nil
}

// withWorkers runs n jobs on a fleet of that many simulated workers, and returns the CPU time of
// the control plane meanwhile.
func (t *target) withWorkers(ctx context.Context, url string, key *identity.Key, size, n int) (o outcome, cpu time.Duration, err error) {
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	failed := make(chan error, size)
	for i := range size {
		wg.Go(func() {
			if err := simulate(running, url, key, fmt.Sprintf("sim-%d-%d", size, i)); err != nil {
				failed <- err
			}
		})
	}
	defer func() {
		stop()
		wg.Wait()
		select {
		case e := <-failed:
			err = errors.Join(err, e)
		default:
		}
	}()
	if err := t.registered(ctx, size); err != nil {
		return o, 0, err
	}
	if _, err := t.runBatch(ctx, pythonJob(policy.Task), 2000); err != nil { // warm-up
		return o, 0, err
	}
	before, err := t.controlPlaneCPU()
	if err != nil {
		return o, 0, err
	}
	if o, err = t.runBatch(ctx, pythonJob(policy.Task), n); err != nil {
		return o, 0, err
	}
	after, err := t.controlPlaneCPU()
	return o, after - before, err
}

// registered waits until the fleet lists size workers that are not draining.
func (t *target) registered(ctx context.Context, size int) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		ws, err := t.Workers(ctx)
		if err != nil {
			return err
		}
		alive := 0
		for _, w := range ws {
			if !w.Draining {
				alive++
			}
		}
		if alive > size { // the fleet's own worker counts, too
			return nil
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("not all of them registered in two minutes")
}

func simulate(ctx context.Context, url string, key *identity.Key, id string) error {
	who, err := identity.NewWorker(id, "default", key.Token(id, "default"))
	if err != nil {
		return err
	}
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: url, Name: id, Worker: &who})
	if err != nil {
		return err
	}
	defer q.Close()
	w, err := worker.New(worker.Config{ID: id, Slots: workerSlots, Version: "simulated"},
		worker.Parts{Class: q.Consumer, Control: q, Runtime: fake.Noop(), Objects: nothing{}})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// nothing is the object store of workers whose jobs leave no objects.
type nothing struct{}

var errNothing = errors.New("simulated workers have no object store")

func (nothing) Put(context.Context, string, io.Reader) (object.Info, error) {
	return object.Info{}, errNothing
}

func (nothing) GetBlob(context.Context, string, string) (io.ReadCloser, int64, error) {
	return nil, 0, errNothing
}

func (nothing) DeletePrefix(context.Context, string) (int, error) { return 0, nil }

func (nothing) Delete(context.Context, string) error { return nil }

package containerd

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// BenchmarkRaw is the bare client loop that BenchmarkTask is compared with:
// create, start, wait, delete, one after another on each of a few goroutines.
func BenchmarkRaw(b *testing.B) {
	env := testenv.Containerd(b)
	c, err := client.New(env.Address, client.WithDefaultNamespace(env.Namespace))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	img, err := c.GetImage(b.Context(), env.Image)
	if err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	b.SetParallelism(2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := rawTask(b.Context(), c, img, fmt.Sprintf("raw-%d-%d", time.Now().UnixNano(), n.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

func rawTask(ctx context.Context, c *client.Client, img client.Image, id string) error {
	cont, err := c.NewContainer(ctx, id, client.WithNewSnapshot(id, img),
		client.WithNewSpec(oci.WithImageConfig(img), oci.WithProcessArgs("/bin/true")))
	if err != nil {
		return err
	}
	defer cont.Delete(ctx, client.WithSnapshotCleanup)
	task, err := cont.NewTask(ctx, cio.NullIO)
	if err != nil {
		return err
	}
	defer task.Delete(ctx)
	exit, err := task.Wait(ctx)
	if err != nil {
		return err
	}
	if err := task.Start(ctx); err != nil {
		return err
	}
	<-exit
	return nil
}

func benchmarkTask(b *testing.B, p job.Program, parallelism int) {
	r := newRuntime(b, func(c *Config) { c.Warm = DefaultConfig().Warm })
	plan := runtimetest.Plan(b, r.Host(), policy.Task, nil)
	b.SetParallelism(parallelism)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s, err := r.Acquire(b.Context(), taskKey)
			if err != nil {
				b.Error(err)
				return
			}
			rep, err := s.Run(b.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: p, Plan: plan})
			s.Close()
			if err != nil || rep.Outcome != job.Succeeded {
				b.Errorf("%+v, %v", rep, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Close(ctx); err != nil { // cleaning is part of the cost
		b.Error(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cleaned/s")
}

func BenchmarkTask(b *testing.B) {
	benchmarkTask(b, job.Program{Command: &job.Command{Argv: []string{"/bin/true"}}}, 4)
}

func BenchmarkTaskPython(b *testing.B) {
	benchmarkTask(b, job.Program{Python: &job.Python{Code: "print(1+1)"}}, 4)
}

// BenchmarkTaskLatency measures a client that waits for each result, with warm slots, like an interactive
// user.
func BenchmarkTaskLatency(b *testing.B) {
	r := newRuntime(b, func(c *Config) { c.Warm = DefaultConfig().Warm })
	plan := runtimetest.Plan(b, r.Host(), policy.Task, nil)
	for _, p := range []job.Program{
		{Command: &job.Command{Argv: []string{"/bin/true"}}}, {Python: &job.Python{Code: "print(1+1)"}},
	} {
		b.Run(p.Kind(), func(b *testing.B) {
			var took []time.Duration
			for range b.N {
				for range 1000 { // a slot is ready
					if warmTasks(b, r, p.Kind()) > 0 {
						break
					}
					<-time.After(time.Millisecond)
				}
				begin := time.Now()
				key := taskKey
				key.Kind = p.Kind()
				s, err := r.Acquire(b.Context(), key)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Run(b.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: p, Plan: plan}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
				s.Close()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

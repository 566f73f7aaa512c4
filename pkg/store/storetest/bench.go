package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Bench runs the benchmarks: go test -bench Store -benchtime 100000x. A row is a job, whatever number of
// statements it took. Spec and result have usual sizes (about 1.2 KB and 0.8 KB).
func Bench(b *testing.B, open func(testing.TB) store.Store) {
	for _, k := range []int{500, 2000, 10000} {
		b.Run(fmt.Sprintf("submit/batch=%d", k), func(b *testing.B) { benchSubmit(b, open(b), k) })
	}
	b.Run("lifecycle/bulk=500", func(b *testing.B) { benchLifecycle(b, open(b), 500, false) })
	b.Run("claim+finish/bulk=500", func(b *testing.B) { benchLifecycle(b, open(b), 500, true) })
	b.Run("pace", func(b *testing.B) { benchPace(b, open(b)) })
	b.Run("single", func(b *testing.B) { benchSingle(b, open(b)) })
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("batch-get/rows=%d", n), func(b *testing.B) { benchGet(b, open(b), n) })
	}
	b.Run("results/page=1000", func(b *testing.B) { benchResults(b, open(b)) })
}

func benchJobs(n int) []store.NewJob {
	jobs := newJobs(n)
	spec := fmt.Appendf(nil, `{"name":"bench","labels":{"problem":"p"},"program":{"python":{"code":%q}},"policy":{"wall":"30s","pad":%q}}`,
		strings.Repeat("x = 1\n", 60), strings.Repeat("abcdefgh", 90))
	for i := range jobs {
		jobs[i].Spec = spec
	}
	return jobs
}

func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(0, "ns/op")
}

func benchSubmit(b *testing.B, s store.Store, k int) {
	f := &fixture{b, s}
	for n := b.N; n > 0; n -= k {
		b.StopTimer()
		jobs := benchJobs(min(k, n))
		b.StartTimer()
		f.submit(jobs...)
	}
	perSecond(b)
}

// benchLifecycle takes b.N jobs from the queue to their records.
func benchLifecycle(b *testing.B, s store.Store, k int, untimedSchedule bool) {
	f := &fixture{b, s}
	for n := b.N; n > 0; n -= 10_000 {
		b.StopTimer()
		f.submit(benchJobs(min(10_000, n))...)
		b.StartTimer()
	}
	text := strings.Repeat("out\n", 100)
	result := fmt.Appendf(nil, `{"id":"","state":"","outcome":"succeeded","stdout":{"text":%q,"bytes":400,"truncated":false},"usage":{"wall_ms":1}}`, text)
	for done := 0; done < b.N; {
		if untimedSchedule {
			b.StopTimer()
		}
		ds := f.schedule(k)
		if untimedSchedule {
			b.StartTimer()
		}
		if len(ds) == 0 {
			b.Fatalf("the queue is empty after %d of %d", done, b.N)
		}
		claims := make([]store.Claim, len(ds))
		for i, d := range ds {
			claims[i] = store.Claim{Ref: d.Ref, Worker: worker}
		}
		got, err := f.Claim(b.Context(), ttl, claims)
		f.must(err)
		fs := make([]store.Finish, len(got))
		for i, c := range got {
			fs[i] = store.Finish{Worker: worker, LeaseRef: leaseOf(c), Outcome: job.Succeeded, Result: result}
		}
		_, err = f.Finish(b.Context(), fs)
		f.must(err)
		done += len(ds)
	}
	perSecond(b)
}

// benchPace simulates a working fleet: two batches, single jobs, half-empty windows, claims of three jobs and
// bulks of twelve. A row is a look and the calls that follow it.
func benchPace(b *testing.B, s store.Store) {
	f := &fixture{b, s}
	var running []store.Claimed
	var spent [3]time.Duration
	result := []byte(`{"id":"","state":"","outcome":"succeeded","stdout":{"text":"2\n","bytes":2,"truncated":false},"usage":{"wall_ms":1}}`)
	timed := func(i int, do func()) {
		began := time.Now()
		do()
		spent[i] += time.Since(began)
	}
	left := 0
	var waiting []store.Dispatch
	for range b.N {
		for ; left < 600; left += 400 {
			b.StopTimer()
			f.submit(benchJobs(400)...)
			b.StartTimer()
		}
		timed(0, func() { waiting = append(waiting, f.schedule(22)...) })
		for range 4 {
			n := min(3, len(waiting))
			var claims []store.Claim
			for _, d := range waiting[:n] {
				claims = append(claims, store.Claim{Ref: d.Ref, Worker: worker})
			}
			waiting = waiting[n:]
			timed(1, func() {
				got, err := f.Claim(b.Context(), ttl, claims)
				f.must(err)
				running = append(running, got...)
			})
		}
		if len(running) > 24 {
			var fs []store.Finish
			for _, c := range running[:12] {
				fs = append(fs, store.Finish{Worker: worker, LeaseRef: leaseOf(c), Outcome: job.Succeeded, Result: result})
			}
			running = running[12:]
			timed(2, func() {
				_, err := f.Finish(b.Context(), fs)
				f.must(err)
			})
			left -= 12
		}
	}
	for i, name := range []string{"look", "4claims", "bulk"} {
		b.ReportMetric(float64(spent[i].Microseconds())/float64(b.N), name+"-us")
	}
	b.ReportMetric(0, "ns/op")
}

// benchSingle measures single jobs of a waiting client, one at a time.
func benchSingle(b *testing.B, s store.Store) {
	f := &fixture{b, s}
	steps := []string{"submit", "claim", "finish", "result"}
	for _, step := range steps {
		b.Run(step, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				on := func(name string, do func()) {
					if name == step {
						b.StartTimer()
						defer b.StopTimer()
					}
					do()
				}
				j := benchJobs(1)[0]
				var d *store.Dispatch
				var l store.LeaseRef
				on("submit", func() { _, d, _ = f.SubmitJob(b.Context(), j, store.Idempotency{}, 100) })
				on("claim", func() { l = leaseOf(f.claim(d.Ref)[0]) })
				on("finish", func() { f.finish(l, job.Succeeded) })
				on("result", func() { f.Result(b.Context(), tenant, j.ID) })
			}
		})
	}
}

func (f *fixture) finishedBatch(n int) job.ID {
	id, existed, err := f.OpenBatch(f.Context(), newBatch())
	f.must(err)
	if existed {
		f.Fatal("existed")
	}
	for left := n; left > 0; left -= 10_000 {
		f.must(f.AppendJobs(f.Context(), id, newJobs(min(left, 10_000))))
	}
	f.must(f.SealBatch(f.Context(), id, int64(n)))
	for left := n; left > 0; {
		var fs []store.Finish
		var refs []store.Ref
		for _, d := range f.schedule(2000) {
			refs = append(refs, d.Ref)
		}
		for _, c := range f.claim(refs...) {
			fs = append(fs, finishOf(leaseOf(c), job.Succeeded))
		}
		_, err := f.Finish(f.Context(), fs)
		f.must(err)
		left -= len(fs)
	}
	return id
}

func benchGet(b *testing.B, s store.Store, n int) {
	f := &fixture{b, s}
	id := f.finishedBatch(n)
	b.ResetTimer()
	for range b.N {
		f.batch(id)
	}
}

func benchResults(b *testing.B, s store.Store) {
	f := &fixture{b, s}
	id := f.finishedBatch(20_000)
	b.ResetTimer()
	for n := 0; n < b.N; {
		for after := store.Cursor(0); n < b.N; {
			raws, next, err := f.Results(b.Context(), tenant, id, after, 1000)
			f.must(err)
			if len(raws) == 0 {
				break
			}
			n, after = n+len(raws), next
		}
	}
	perSecond(b)
}

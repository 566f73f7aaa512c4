package worker

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/store"
)

func TestResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		spec := script(`sleep=40ms output="hello\n" artifact=/workspace/out/plot.svg:<svg/> artifact=/workspace/x:kept`)
		spec.Name, spec.Labels = "two-sum/3", map[string]string{"problem": "two-sum"}
		id := b.submit(t, spec)
		res := b.recorded(id)
		if res.ID != id || res.Name != spec.Name || !cmp.Equal(res.Labels, spec.Labels) ||
			res.State != job.Finished || res.Outcome != job.Succeeded || res.Stdout.Text != "hello\n" {
			t.Errorf("result = %+v", res)
		}
		if res.Timings.QueuedMS != 7 || res.Timings.RunMS != 40 {
			t.Errorf("timings = %+v, want queued 7, run 40", res.Timings)
		}
		if len(res.Enforcement) == 0 {
			t.Error("no enforcement report")
		}
		prefix := "acme/" + string(id) + "/1/"
		want := []job.Artifact{
			{Path: "/workspace/out/plot.svg", Bytes: 6, SHA256: "b64b4a26bca11cf1a65e1d5e93e4eddd1e84ef13ad0bb0f8c0a5ae8fb9b8f3d6", MediaType: "image/svg+xml", Object: prefix + "workspace/out/plot.svg"},
			{Path: "/workspace/x", Bytes: 4, MediaType: "text/plain; charset=utf-8", Object: prefix + "workspace/x"},
		}
		for i := range res.Artifacts {
			if len(res.Artifacts[i].SHA256) != 64 {
				t.Errorf("artifact %d has sha256 %q", i, res.Artifacts[i].SHA256)
			}
			res.Artifacts[i].SHA256, want[i].SHA256 = "", ""
		}
		if d := cmp.Diff(want, res.Artifacts); d != "" {
			t.Errorf("artifacts (-want +got):\n%s", d)
		}
		if m := b.row(id).delivered; m.acked() != 1 || m.naked() != 0 {
			t.Errorf("acks %d, naks %d, want one ack", m.acked(), m.naked())
		}
	})
}

// What is wrong with a job is its record, and never a failure of ours.
func TestVerdicts(t *testing.T) {
	text := "x"
	for name, c := range map[string]struct {
		spec job.Spec
		raw  string
		want job.Outcome
		says string
	}{
		"unreadable":      {raw: `{"program": 7}`, want: job.PolicyViolation, says: "cannot read the job"},
		"unknown program": {raw: `{"program": {"wasm": {}}}`, want: job.PolicyViolation, says: "program"},
		"bad policy":      {raw: `{"program":{"python":{"code":""}},"policy":{"memory":"lots"}}`, want: job.PolicyViolation, says: "memory"},
		"too much memory": {raw: `{"program":{"python":{"code":""}},"policy":{"memory":"8Gi","enforce":"report"}}`, want: job.PolicyViolation, says: "memory"},
		"missing image":   {spec: with(script("exit=0"), func(s *job.Spec) { s.Image = "no-such-image" }), want: job.Failed, says: "image"},
		"bad base64":      {spec: with(script("exit=0"), func(s *job.Spec) { s.Files = map[string]job.File{"/workspace/a": {Base64: &text}} }), want: job.PolicyViolation, says: "files: /workspace/a"},
		"bad blob":        {spec: with(script("exit=0"), func(s *job.Spec) { s.Files = map[string]job.File{"/workspace/a": {Blob: "../etc"}} }), want: job.PolicyViolation, says: "files: /workspace/a"},
		"missing blob":    {spec: with(script("exit=0"), func(s *job.Spec) { s.Files = map[string]job.File{"/a": {Blob: "sha256:" + strings.Repeat("0", 64)}} }), want: job.Failed, says: "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet())
				id := job.ID("")
				if c.raw != "" {
					id = b.submitRaw([]byte(c.raw))
				} else {
					id = b.submit(t, c.spec)
				}
				res := b.recorded(id)
				if res.Outcome != c.want || !strings.Contains(res.Message, c.says) {
					t.Errorf("outcome %s, message %q, want %s and %q", res.Outcome, res.Message, c.want, c.says)
				}
				if n := b.rt.Started(); n != 0 {
					t.Errorf("%d attempts ran", n)
				}
			})
		})
	}
}

func with(s job.Spec, f func(*job.Spec)) job.Spec { f(&s); return s }

func TestOurFailuresAreHandedBack(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"error":       {"error=containerd-is-gone", "containerd-is-gone"},
		"panic":       {"panic=oops", "panic: oops"},
		"bad outcome": {"outcome=splendid", "splendid"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet())
				id := b.submit(t, script("artifact=/workspace/x:y "+c.script))
				rel := b.released(id)
				if rel.Reason != job.ReasonInfra || !strings.Contains(rel.Message, c.says) {
					t.Errorf("released with %+v, want infra and %q", rel, c.says)
				}
				b.until("artifacts are gone", func() bool { return len(b.objectsLeft()) == 0 })
				b.until("delivery is acknowledged", func() bool { return b.row(id).delivered.acked() == 1 })
				if next := b.submit(t, script("exit=0")); b.recorded(next).Outcome != job.Succeeded {
					t.Error("the worker does not work any more")
				}
			})
		})
	}
}

func TestBrokenWorkerStopsTakingJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		b := start(t, newFleet(), func(c *Config, p *Parts) { c.Slots = 1 })
		b.rt.FailAcquire = func(runtime.Key) error { attempts.Add(1); return errors.New("containerd is gone") }
		for range 1000 {
			b.submit(t, script("exit=0"))
		}
		time.Sleep(time.Minute)
		if n := attempts.Load(); n < 5 || n > 40 {
			t.Errorf("a worker on which nothing works took %d jobs in a minute", n)
		}
		b.rt.FailAcquire = nil // races with nothing: the worker is pausing
		before := b.rt.Started()
		b.until("it works again", func() bool { return b.rt.Started() > before+100 })
	})
}

func TestCancelWhileRunning(t *testing.T) {
	for name, send := range map[string]func(b *bench, id job.ID){
		"message": func(b *bench, id job.ID) { b.onCancel(store.LeaseRef{Job: id, Lease: b.row(id).lease}) },
		"heartbeat": func(b *bench, id job.ID) {
			b.mu.Lock()
			b.jobs[id].cancel = true
			b.mu.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet())
				id := b.submit(t, script("sleep=1h"))
				b.until("it runs", func() bool { return b.rt.Started() == 1 })
				send(b, id)
				asked := time.Now()
				if res := b.recorded(id); res.Outcome != job.OutcomeCanceled || res.State != job.Canceled {
					t.Errorf("result = %+v", res)
				}
				if took := time.Since(asked); took > b.w.cfg.Heartbeat+time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// The cancel can overtake the answer to the claim.
func TestCancelBeforeTheClaimIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.after = func(_ context.Context, kind string) error {
			if kind == "claim" {
				f.onCancel(store.LeaseRef{Job: job.ID(""), Lease: 99}) // somebody else's, ignored
				for id, j := range f.jobs {
					f.onCancel(store.LeaseRef{Job: id, Lease: j.lease})
				}
			}
			return nil
		}
		b := start(t, f)
		b.until("it listens for cancels", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.onCancel != nil })
		id := b.submit(t, script("sleep=1h"))
		if res := b.recorded(id); res.Outcome != job.OutcomeCanceled || b.rt.Started() != 0 {
			t.Errorf("outcome %s, %d attempts ran", res.Outcome, b.rt.Started())
		}
	})
}

func TestLostLeaseKillsTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("artifact=/workspace/x:y sleep=1h"))
		b.until("it runs", func() bool { return len(b.objectsLeft()) == 1 })
		b.mu.Lock()
		b.jobs[id].lease = 77 // reaped and claimed elsewhere
		b.mu.Unlock()
		b.until("the sandbox is gone", func() bool { return b.rt.Live() == 0 })
		b.until("the delivery and the artifacts are gone", func() bool {
			return b.row(id).delivered.acked() == 1 && len(b.objectsLeft()) == 0
		})
		if r := b.row(id); r.finishes != 0 || len(r.releases) != 0 {
			t.Errorf("something was said under a lost lease: %+v", r)
		}
	})
}

// Nobody answers: the sandbox is dead before the lease can be over, whether
// heartbeats fail at once or hang.
func TestSelfFence(t *testing.T) {
	for name, heartbeat := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return job.ErrUnavailable },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				var cut atomic.Bool
				f.before = func(ctx context.Context, kind string) error {
					if kind == "heartbeat" && cut.Load() {
						return heartbeat(ctx)
					}
					return nil
				}
				b := start(t, f)
				id := b.submit(t, script("artifact=/workspace/x:y sleep=1h"))
				time.Sleep(time.Minute) // heartbeats keep it alive
				if b.rt.Live() != 1 {
					t.Fatal("killed although heartbeats were answered")
				}
				b.mu.Lock()
				last := len(b.beats)
				b.mu.Unlock()
				cut.Store(true)
				began := time.Now()
				b.until("the sandbox is gone", func() bool { return b.rt.Live() == 0 })
				if took := time.Since(began); took > ttl-b.w.cfg.Margin+fenceTick+20*time.Millisecond || took < ttl-b.w.cfg.Margin-b.w.cfg.Heartbeat-fenceTick {
					t.Errorf("killed after %v, want just before %v", took, ttl-b.w.cfg.Margin)
				}
				b.until("its artifacts are gone", func() bool { return len(b.objectsLeft()) == 0 })
				if m := b.row(id).delivered; m.acked() != 0 {
					t.Error("acknowledged what nobody recorded")
				}
				if b.mu.Lock(); len(b.beats) != last {
					t.Error("the fleet was not cut off")
				}
				b.mu.Unlock()
			})
		})
	}
}

func TestUnknownFinishIsSaidAgain(t *testing.T) {
	for _, executed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			var lost atomic.Int64
			fault := func(_ context.Context, kind string) error {
				if kind == "finish" && lost.Add(1) <= 4 {
					return job.ErrUnavailable
				}
				return nil
			}
			if executed {
				f.after = fault
			} else {
				f.before = fault
			}
			b := start(t, f)
			id := b.submit(t, script("artifact=/workspace/x:y"))
			b.until("it is confirmed", func() bool { return lost.Load() == 5 && b.row(id).delivered.acked() == 1 })
			if r := b.row(id); r.recorded != 1 || r.result.Outcome != job.Succeeded {
				t.Errorf("executed %v: %+v", executed, r)
			}
			if n := len(b.objectsLeft()); n != 1 {
				t.Errorf("%d artifacts, want the record's one", n)
			}
		})
	}
}

func TestAckOnlyAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.before = func(_ context.Context, kind string) error {
			if kind == "finish" || kind == "heartbeat" {
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("artifact=/workspace/x:y"))
		b.until("it ran", func() bool { return b.rt.Started() == 1 })
		b.until("it is given up when the lease is over", func() bool { return len(b.w.leases.all()) == 0 })
		if m := b.row(id).delivered; m.acked()+m.naked() != 0 {
			t.Errorf("acks %d, naks %d before any commit", m.acked(), m.naked())
		}
		if n := len(b.objectsLeft()); n != 1 {
			t.Errorf("%d artifacts: whether they belong to the record is unknown, they must stay", n)
		}
	})
}

func TestLateResultIsDiscarded(t *testing.T) {
	for _, status := range []store.FinishStatus{store.Fenced, store.Retried} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			f.status = status
			b := start(t, f)
			id := b.submit(t, script("artifact=/workspace/x:y"))
			b.until("acknowledged", func() bool { return b.row(id).delivered.acked() == 1 })
			b.until("artifacts are gone", func() bool { return len(b.objectsLeft()) == 0 })
		})
	}
}

// One result that the record refuses holds up nobody else.
func TestRefusedResultIsHandedBackAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		bad := f.submit(t, script("output=bad"))
		b := start(t, f, func(_ *Config, p *Parts) { p.Control = &poison{fleet: f, id: bad} })
		var good []job.ID
		for range 20 {
			good = append(good, b.submit(t, script("output=good")))
		}
		for _, id := range good {
			if res := b.recorded(id); res.Stdout.Text != "good" {
				t.Errorf("result = %+v", res)
			}
		}
		if rel := b.released(bad); rel.Reason != job.ReasonInfra {
			t.Errorf("released with %+v", rel)
		}
	})
}

func TestUnknownClaimIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var n atomic.Int64
		f.after = func(_ context.Context, kind string) error {
			if kind == "claim" && n.Add(1) <= 3 {
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("sleep=1s"))
		if res := b.recorded(id); res.Outcome != job.Succeeded || b.rt.Started() != 1 {
			t.Errorf("outcome %s after %d runs", res.Outcome, b.rt.Started())
		}
	})
}

func TestUnansweredClaimGivesTheDeliveryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.before = func(_ context.Context, kind string) error {
			if kind == "claim" {
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("exit=0"))
		b.until("given back", func() bool { return b.row(id).delivered.naked() == 1 })
		if n := b.rt.Started(); n != 0 {
			t.Errorf("%d attempts ran without a lease", n)
		}
	})
}

func TestStaleDeliveryIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("exit=0"))
		b.recorded(id)
		again := &message{f: b.fleet, ref: b.row(id).delivered.ref}
		b.ready <- again
		b.until("acknowledged", func() bool { return again.acked() == 1 })
		if n := b.rt.Started(); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

// A delivery that is doubled to the worker that runs the job gets the same
// lease again: it must not run twice under it.
func TestDoubledDeliveryRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("sleep=10s"))
		b.until("it runs", func() bool { return b.rt.Started() == 1 })
		again := &message{f: b.fleet, ref: b.row(id).delivered.ref}
		b.ready <- again
		b.recorded(id)
		if r := b.row(id); b.rt.Started() != 1 || r.claims != 2 || r.finishes != 1 || again.acked() != 0 {
			t.Errorf("ran %d times, %d claims, %d finishes, %d early acks", b.rt.Started(), r.claims, r.finishes, again.acked())
		}
	})
}

func TestHeldDeliveriesAreKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("sleep=1m"))
		b.recorded(id)
		m := b.row(id).delivered
		if m.touches < 10 {
			t.Errorf("InProgress %d times", m.touches)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if first := b.beats[0]; first.Worker.ID != "w1" || first.Worker.Slots != 16 || first.Worker.Draining {
			t.Errorf("first heartbeat = %+v", first)
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), func(c *Config, p *Parts) { c.CPU = 2; c.Slots = 8; c.Grace = 30 * time.Second })
		short, long := b.submit(t, script("sleep=10s")), b.submit(t, script("artifact=/workspace/x:y sleep=1h"))
		b.until("both run", func() bool { return b.rt.Started() == 2 })
		waiting := b.submit(t, script("sleep=1s")) // claimed, but there is no capacity
		b.until("the third is claimed", func() bool { return b.row(waiting).lease != 0 })
		if err := b.w.Ready(); err != nil {
			t.Errorf("not ready while working: %v", err)
		}
		b.stop()
		began := time.Now()
		if rel := b.released(waiting); rel.Reason != job.ReasonDrained || time.Since(began) > time.Second {
			t.Errorf("what had not begun: %+v after %v", rel, time.Since(began))
		}
		if res := b.recorded(short); res.Outcome != job.Succeeded {
			t.Errorf("what ended in time: %+v", res)
		}
		if rel := b.released(long); rel.Reason != job.ReasonDrained {
			t.Errorf("what was killed: %+v", rel)
		}
		<-b.ended
		if b.w.Ready() == nil {
			t.Error("ready although drained")
		}
		if took := time.Since(began); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("the drain took %v, grace is 30s", took)
		}
		b.mu.Lock()
		if last := b.beats[len(b.beats)-1]; !last.Worker.Draining {
			t.Error("heartbeats did not say that the worker drains")
		}
		b.mu.Unlock()
		late := b.submit(t, script("exit=0"))
		time.Sleep(time.Minute)
		if r := b.row(late); r.claims != 0 {
			t.Error("a drained worker took a job")
		}
		if n := len(b.objectsLeft()); n != 0 {
			t.Errorf("%d objects of the killed attempt remain", n)
		}
	})
}

func TestRunWithNothingToDoEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		time.Sleep(20 * time.Second)
		began := time.Now()
		b.drained()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// poison refuses every finish message that holds one job's result.
type poison struct {
	*fleet
	id job.ID
}

func (p *poison) Finish(ctx context.Context, r queue.FinishRequest) (queue.FinishReply, error) {
	for _, f := range r.Finishes {
		if f.Job == p.id {
			return queue.FinishReply{}, job.Invalid("result", "refused")
		}
	}
	return p.fleet.Finish(ctx, r)
}

// downStore fails the first n uploads.
type downStore struct {
	Objects
	fails atomic.Int64
}

func (d *downStore) Put(ctx context.Context, key string, r io.Reader) (object.Info, error) {
	if d.fails.Add(-1) >= 0 {
		return object.Info{}, job.ErrUnavailable
	}
	return d.Objects.Put(ctx, key, r)
}

func TestObjectStoreOutage(t *testing.T) {
	for name, c := range map[string]struct {
		fails int64
		ok    bool
	}{"short": {2, true}, "long": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet(), func(_ *Config, p *Parts) {
					d := &downStore{Objects: p.Objects}
					d.fails.Store(c.fails)
					p.Objects = d
				})
				id := b.submit(t, script("artifact=/workspace/x:y"))
				if !c.ok {
					if rel := b.released(id); rel.Reason != job.ReasonInfra || b.row(id).finishes != 0 {
						t.Errorf("a result without its artifacts: %+v", rel)
					}
				} else if res := b.recorded(id); len(res.Artifacts) != 1 {
					t.Errorf("artifacts = %+v", res.Artifacts)
				}
			})
		})
	}
}

func TestArtifactLimitsAreCheckedAgain(t *testing.T) {
	b := start(t, newFleet())
	as := &artifacts{objects: b.objects, tenant: "acme", lease: &lease{LeaseRef: store.LeaseRef{Job: job.NewID(), Lease: 1}},
		limits: policy.Artifacts{MaxFiles: 2, MaxBytes: 10}}
	keep := func(name, text string, size int64) error {
		return as.collect(t.Context(), name, size, strings.NewReader(text))
	}
	if err := keep("/a", "12345678", 8); err != nil {
		t.Fatal(err)
	}
	if err := keep("/b", "123", 3); !errors.Is(err, job.ErrTooLarge) {
		t.Errorf("above max_bytes: %v", err)
	}
	if err := keep("/b", "123456", 2); err != nil || as.list[1].Bytes != 2 { // yields more than it said
		t.Errorf("a file that grew: %v, %+v", err, as.list)
	}
	if err := keep("/c", "", 0); !errors.Is(err, job.ErrTooLarge) {
		t.Errorf("above max_files: %v", err)
	}
	if err := keep("/../etc", "", 0); err == nil {
		t.Error("a path that is not clean was kept")
	}
}

// However short the leases are, they are prolonged in time, and fenced in time.
func TestIntervalsFollowTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.ttl = 4 * time.Second // less than a heartbeat is usually apart
		b := start(t, f)
		id := b.submit(t, script("sleep=1m"))
		if res := b.recorded(id); res.Outcome != job.Succeeded {
			t.Errorf("outcome %s", res.Outcome)
		}
	})
}

// Specs may be large and a dispatcher slow: a claim is given longer each time.
func TestSlowClaimIsAnsweredInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		claims := 0
		f.after = func(ctx context.Context, kind string) error {
			if kind != "claim" {
				return nil
			}
			claims++
			select {
			case <-time.After(requestTimeout + time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		b := start(t, f)
		if res := b.recorded(b.submit(t, script(""))); res.Outcome != job.Succeeded || claims != 2 {
			t.Errorf("outcome %s after %d claims", res.Outcome, claims)
		}
	})
}

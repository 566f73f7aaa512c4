package worker

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
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

// A faulty job gets a record, and is never an infrastructure failure.
func TestVerdicts(t *testing.T) {
	text := "x"
	for name, c := range map[string]struct {
		spec job.Spec
		raw  string
		want job.Outcome
		says string
	}{
		"unreadable":      {raw: `{"program": 7}`, want: job.SetupError, says: "cannot read the job"},
		"unknown program": {raw: `{"program": {"wasm": {}}}`, want: job.SetupError, says: "program"},
		"bad policy":      {raw: `{"program":{"python":{"code":""}},"policy":{"memory":"lots"}}`, want: job.SetupError, says: "memory"},
		"too much memory": {raw: `{"program":{"python":{"code":""}},"policy":{"memory":"8Gi","enforce":"report"}}`, want: job.SetupError, says: "memory"},
		"missing image":   {spec: with(script("exit=0"), func(s *job.Spec) { s.Image = "no-such-image" }), want: job.SetupError, says: "image"},
		"bad base64":      {spec: with(script("exit=0"), func(s *job.Spec) { s.Files = map[string]job.File{"/workspace/a": {Base64: &text}} }), want: job.SetupError, says: "files: /workspace/a"},
		"bad blob":        {spec: with(script("exit=0"), func(s *job.Spec) { s.Files = map[string]job.File{"/workspace/a": {Blob: "../etc"}} }), want: job.SetupError, says: "files: /workspace/a"},
		"missing blob":    {spec: with(script("exit=0"), func(s *job.Spec) { s.Files = map[string]job.File{"/a": {Blob: "sha256:" + strings.Repeat("0", 64)}} }), want: job.SetupError, says: "does not exist"},
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
		b.rt.FailAcquire = nil // no race: the worker is pausing
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

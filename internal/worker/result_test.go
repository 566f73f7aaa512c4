package worker

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// leaving is a runtime whose reports edit changes.
type leaving struct {
	runtime.Runtime
	edit func(*job.Result)
}

func (l leaving) Acquire(ctx context.Context, k runtime.Key) (runtime.Slot, error) {
	s, err := l.Runtime.Acquire(ctx, k)
	return leavingSlot{s, l.edit}, err
}

type leavingSlot struct {
	runtime.Slot
	edit func(*job.Result)
}

func (s leavingSlot) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	rep, err := s.Slot.Run(ctx, a)
	if rep != nil {
		s.edit(&rep.Result)
	}
	return rep, err
}

// left runs one job whose report is edited and returns its record and its JSON size.
func left(t *testing.T, edit func(*job.Result), check func(b *bench, res job.Result)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), func(_ *Config, p *Parts) { p.Runtime = leaving{p.Runtime, edit} })
		b.heard()
		id := b.submit(t, script("exit=0"))
		check(b, b.recorded(id))
	})
}

func rowOf(res job.Result, capability string) job.Enforcement {
	if i := slices.IndexFunc(res.Enforcement, func(e job.Enforcement) bool { return e.Capability == capability }); i >= 0 {
		return res.Enforcement[i]
	}
	return job.Enforcement{}
}

// 8 steps of 2 × 16 MiB of control characters, which take six bytes each in JSON. The record stays
// small, and all output is available.
func TestLargeOutputsAreKeptBesideTheResult(t *testing.T) {
	const size, steps = 1 << 20, 8 // of the steps; the first has the largest size
	text := func(c string, n int) string { return strings.Repeat(c, n) }
	left(t, func(r *job.Result) {
		for i := range steps {
			n := size
			if i == 0 {
				n = 16 << 20
			}
			r.Steps = append(r.Steps, job.StepResult{Name: "s", Outcome: job.Succeeded,
				Stdout: job.Output{Text: text("\x01", n), Bytes: int64(n)}, Stderr: job.Output{Text: text("\x02", size), Bytes: size}})
		}
		r.Stdout, r.Stderr = job.Output{Text: "small"}, job.Output{Text: text("e", size), Bytes: size}
		r.Output = []job.Chunk{{Stream: "stdout", Text: text("x", size)}}
	}, func(b *bench, res job.Result) {
		raw, _ := json.Marshal(res)
		if len(raw) > 8<<20 || res.Outcome != job.Succeeded {
			t.Errorf("%d bytes, %s", len(raw), res.Outcome)
		}
		if res.Usage.CPUMS <= 0 {
			t.Error("the job is not charged for what it takes to store its outputs")
		}
		if res.Stdout.Stored != nil || res.Stdout.Text != "small" || res.Output != nil {
			t.Errorf("stdout %+v, %d chunks", res.Stdout, len(res.Output))
		}
		all := []job.Output{res.Stderr}
		for _, s := range res.Steps {
			all = append(all, s.Stdout, s.Stderr)
		}
		for i, o := range all {
			if o.Stored == nil {
				t.Fatalf("output %d is not stored", i)
			}
			r, info, err := b.objects.Get(t.Context(), o.Stored.Object)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := io.ReadAll(r)
			r.Close()
			if err != nil || int64(len(whole)) != o.Bytes || info.Bytes != o.Stored.Bytes || len(o.Stored.SHA256) != 64 {
				t.Errorf("output %d: %d bytes of %d, %+v, %v", i, len(whole), o.Bytes, o.Stored, err)
			}
			if n := job.EncodedSize(o.Text); n > int(job.MaxInline) || n < transfer.Edge || !strings.Contains(o.Text, "stored output") {
				t.Errorf("output %d: %d bytes inline", i, n)
			}
		}
		if n := len(b.objectsLeft()); n != len(all) {
			t.Errorf("%d objects, want %d", n, len(all))
		}
		if row := rowOf(res, "output"); !strings.Contains(row.Mechanism, "17 of 33554432 bytes") || row.Applied != "256Ki" {
			t.Errorf("row %+v", row)
		}
		if row := rowOf(res, "result"); row.Applied != "32Mi" || row.Level != job.LevelRuntime || row.Mechanism == "" {
			t.Errorf("row %+v", row)
		}
	})
}

// heard waits until a heartbeat was answered, whose answer has the dispatchers' protocol.
func (b *bench) heard() {
	b.t.Helper()
	b.until("a heartbeat is answered", func() bool { return b.w.answered.Load() > 0 })
}

// A secret is masked in long outputs, too.
func TestStoredOutputsAreMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.secrets = control.Secrets{"TOKEN": "correct-horse"}
		b := start(t, f, func(_ *Config, p *Parts) {
			p.Runtime = leaving{p.Runtime, func(r *job.Result) {
				r.Stdout.Text = strings.Repeat("x", 1<<20) + "correct-horse" + strings.Repeat("x", 1<<20)
			}}
		})
		b.heard()
		spec := script("exit=0")
		spec.Policy = json.RawMessage(`{"isolation":"task","enforce":"report","env":{"secrets":{"TOKEN":"t"}}}`)
		res := b.recorded(b.submit(t, spec))
		if res.Stdout.Stored == nil {
			t.Fatalf("not stored: %s %s", res.Outcome, res.Message)
		}
		r, _, err := b.objects.Get(t.Context(), res.Stdout.Stored.Object)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if whole, _ := io.ReadAll(r); strings.Contains(string(whole), "correct-horse") || !strings.Contains(string(whole), "***") {
			t.Error("the secret is in the stored output")
		}
	})
}

// Without the object store there is no result without its output. That is an infrastructure
// failure, and the outputs stored before are removed.
func TestOutputsOfNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), func(_ *Config, p *Parts) {
			d := &downStore{Objects: p.Objects}
			d.fails.Store(1000)
			p.Objects = d
			p.Runtime = leaving{p.Runtime, func(r *job.Result) { r.Stdout.Text = strings.Repeat("x", 1<<20) }}
		})
		id := b.submit(t, script("exit=0"))
		if rel := b.released(id); rel.Reason != job.ReasonInfra || !strings.Contains(rel.Message, "store stdout") || b.row(id).finishes != 0 {
			t.Errorf("released with %+v after %d reports", rel, b.row(id).finishes)
		}
		b.until("nothing is left", func() bool { return len(b.objectsLeft()) == 0 })
	})
}

// Other parts of a result are bounded as well, with a message.
func TestResultIsBounded(t *testing.T) {
	big := strings.Repeat("\x01", 12<<20) // 72 MiB of JSON
	for name, c := range map[string]struct {
		edit func(*job.Result)
		says string
		ok   func(job.Result) bool
	}{
		"value":     {func(r *job.Result) { r.Value = &job.Value{Type: "str", Repr: big} }, "its value", func(r job.Result) bool { return r.Value == nil }},
		"variables": {func(r *job.Result) { r.Variables = map[string]job.Variable{"x": {Repr: big}} }, "variables", func(r job.Result) bool { return r.Variables == nil }},
		"exception": {func(r *job.Result) { r.Exception = &job.ExceptionInfo{Type: "E", Message: big, Traceback: big} }, "its value",
			func(r job.Result) bool { return r.Exception.Type == "E" && len(r.Exception.Message) < 2000 }},
		"tests": {func(r *job.Result) {
			r.Tests = &job.TestsResult{Passed: 1, Total: 2, Cases: []job.CaseResult{{Name: "a", Got: big}, {Name: "b", Passed: true}}}
		}, "details of tests", func(r job.Result) bool {
			return len(r.Tests.Cases) == 2 && r.Tests.Cases[1].Passed && r.Tests.Passed == 1
		}},
		"names of artifacts": {func(r *job.Result) { r.Packages = []string{big} }, "its steps", func(r job.Result) bool { return r.Packages == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			left(t, c.edit, func(_ *bench, res job.Result) {
				if res.Outcome != job.OutputLimit || res.State != job.Finished || !strings.Contains(res.Message, "32Mi") || !strings.Contains(res.Message, c.says) {
					t.Errorf("%s, %s: %s", res.State, res.Outcome, res.Message)
				}
				if !c.ok(res) || res.ExitCode == nil || len(res.Enforcement) == 0 {
					t.Errorf("not left as it should be: exit code %v", res.ExitCode)
				}
			})
		})
	}
}

// A result that is too large drops the names of its objects, and they are deleted.
func TestObjectsThatARecordDropsAreDeleted(t *testing.T) {
	large := job.Output{Text: strings.Repeat("x", 1<<20)}
	left(t, func(r *job.Result) {
		r.Packages = []string{strings.Repeat("\x01", 12<<20)}
		r.Stdout, r.Steps = large, []job.StepResult{{Stdout: large}, {Stderr: large}}
	}, func(b *bench, res job.Result) {
		if res.Outcome != job.OutputLimit || len(res.Steps) != 0 || res.Stdout.Stored == nil {
			t.Errorf("%s, %d steps, stdout is stored: %t", res.Outcome, len(res.Steps), res.Stdout.Stored != nil)
		}
		b.until("only stdout is left", func() bool { return len(b.objectsLeft()) == 1 })
	})
}

package conformance

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestConformance runs the table: every program, every limit, every level, or this turn's share of the first two levels.
func TestConformance(t *testing.T) {
	f := start(t)
	levels := []string{"cell", "task"}
	if *all {
		levels = append(levels, "gvisor")
	}
	t.Logf("turn %d", *turn)
	t.Run("together", func(t *testing.T) { f.together(t) })
	t.Run("sessions", func(t *testing.T) { f.sessions(t) })
	cells := 0
	for _, level := range levels {
		for i := range programs {
			if reason, ok := programs[i].without[level]; ok {
				t.Run(level+"/"+programs[i].name, func(t *testing.T) { f.without(t, &programs[i], level, reason) })
				continue
			}
			for j, l := range table(f.page) {
				if cells++; !*all && int64(cells+i+j)%share != *turn%share {
					continue
				}
				t.Run(level+"/"+programs[i].name+"/"+l.name, func(t *testing.T) {
					t.Parallel()
					f.cell(t, &programs[i], l, level)
				})
			}
		}
	}
}

// cell runs one cell of the table.
func (f *fleet) cell(t *testing.T, p *program, l limit, level string) {
	if reason, ok := l.excused[p.name]; ok {
		t.Logf("no meaning: %s", reason)
		return
	}
	if reason, ok := l.unfit[p.use]; ok {
		f.unfit(t, p, l, level, reason)
		return
	}
	o, err := p.run(t, f, l.beyond, written(t, level, l.policy))
	if err != nil {
		t.Fatalf("beyond: %v", err)
	}
	want := l.outcomes
	switch {
	case p.use == policy.UseTests && l.graded != nil:
		want = l.graded
	case (p.use == policy.UseSession || p.use == policy.UseShell) && l.session != nil:
		want = l.session
	}
	if !slices.Contains(want, o.outcome) {
		t.Errorf("beyond: outcome %s (%s), want one of %v", o.outcome, o.message, want)
	} else if l.held != nil {
		l.held(t, o, p, level)
	}
	f.row(t, p, l, level, o.rows, l.level)
	show(t, "beyond", o)
	roomy := l.roomy
	if roomy == nil {
		roomy = l.policy
	}
	if o, err = p.run(t, f, l.within, written(t, level, roomy)); err != nil {
		t.Fatalf("within: %v", err)
	}
	if o.outcome != job.Succeeded {
		t.Errorf("within: outcome %s (%s)", o.outcome, o.message)
	} else if l.stayed != nil {
		l.stayed(t, o, p, level)
	}
	show(t, "within", o)
}

// together checks that the CPU time of a graded solution is the total of all of its runs. On
// 490fff9 each run of stdio had all of it, and so had the check beside the solution.
func (f *fleet) together(t *testing.T) {
	const burn = "import time\ndef f(x):\n    end = time.process_time() + 0.8\n    while time.process_time() < end: pass\n    return x\n"
	one, loop := []job.Case{{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("1")}}, "import time\nend = time.process_time() + 60\nwhile time.process_time() < end: pass\n"
	for name, tests := range map[string]*job.Tests{
		"stdio":           {Code: burn + "f(1)", Stdio: make([]job.Stdio, 4)},
		"cases":           {Code: burn, Function: "f", Cases: slices.Repeat(one, 4)},
		"cases and stdio": {Code: burn + "f(1)", Function: "f", Cases: one, Stdio: make([]job.Stdio, 3)},
		"check":           {Code: burn, Function: "f", Check: loop + "def check(candidate):\n    pass"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := f.api.Run(t.Context(), job.Spec{Program: job.Program{Tests: tests}, Policy: written(t, "cell", limits{"wall": "5m", "cpu_time": "2s"})})
			if err != nil {
				t.Fatal(err)
			}
			last := r.Tests.Cases[len(r.Tests.Cases)-1]
			if r.Outcome != job.Failed || last.Outcome != job.TimedOut || r.Tests.Passed > 2 {
				t.Errorf("outcome %s, %d passed, the last one %+v", r.Outcome, r.Tests.Passed, last)
			}
			between(t, "cpu_ms", r.Usage.CPUMS, 1.5*second, 4*second)
		})
	}
}

// row checks the report's row of the limit, and that the report is complete: limits that are not
// enforced were not requested.
func (f *fleet) row(t *testing.T, p *program, l limit, level string, rows []job.Enforcement, want job.Level) {
	t.Helper()
	if (p.use == policy.UseSession || p.use == policy.UseShell) && l.sessionLevel != "" {
		want = l.sessionLevel
	}
	found := false
	for _, r := range rows {
		if r.Capability == "isolation" && r.Applied != level {
			t.Errorf("isolation: %+v", r)
		}
		if r.Level == job.LevelNone && r.Mechanism != "nothing to enforce" {
			t.Errorf("not enforced: %+v", r)
		}
		if r.Capability == l.capability {
			found = true
			if r.Level != want || r.Applied != r.Requested || r.Mechanism == "" {
				t.Errorf("report: %+v, want level %s", r, want)
			}
		}
	}
	if !found {
		t.Errorf("the report has no row for %s: %+v", l.capability, rows)
	}
}

// unfit checks a limit that is not enforced for a kind of program. It is refused, or the program
// runs without it, and then the report has that.
func (f *fleet) unfit(t *testing.T, p *program, l limit, level, reason string) {
	_, err := p.run(t, f, l.within, written(t, level, l.policy))
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "policy."+l.capability) || !strings.Contains(err.Error(), reason) {
		t.Errorf("strict: %v, want a refusal of policy.%s: %s", err, l.capability, reason)
	}
	lenient := maps.Clone(l.policy)
	lenient["enforce"] = "report"
	o, err := p.run(t, f, l.within, written(t, level, lenient))
	if err != nil {
		t.Fatalf("report: %v", err)
	}
	i := slices.IndexFunc(o.rows, func(r job.Enforcement) bool { return r.Capability == l.capability })
	if i < 0 || o.rows[i].Level != job.LevelNone || o.rows[i].Applied == o.rows[i].Requested || !strings.Contains(o.rows[i].Mechanism, reason) {
		t.Errorf("report: %+v, want level none: %s", o.rows, reason)
	}
	if o.outcome != job.Succeeded {
		t.Errorf("report: outcome %s (%s)", o.outcome, o.message)
	}
}

// without checks that a kind of program which does not exist at a level is refused, with the
// reason.
func (f *fleet) without(t *testing.T, p *program, level, reason string) {
	if _, err := p.run(t, f, "def act(): pass", written(t, level, nil)); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%v, want: %s", err, reason)
	}
}

// written returns a policy at a level.
func written(t *testing.T, level string, l limits) json.RawMessage {
	t.Helper()
	with := limits{"isolation": level}
	maps.Copy(with, l)
	raw, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// show logs the record of a cell that failed.
func show(t *testing.T, what string, o *observed) {
	if t.Failed() {
		raw, _ := json.Marshal(o.raw)
		t.Logf("%s: %.3000s", what, raw)
	}
}

//go:build upgrade

package chaos

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// newPrograms returns jobs with fields that the previous release does not support, and their
// outcomes under a release that does. The previous release would judge each differently: its
// workers ignore unknown fields.
func newPrograms() map[string]newProgram {
	tests := func(code string, t job.Tests) job.Program {
		t.Code, t.Function = code, "f"
		return job.Program{Tests: &t}
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	one := func(expected string) []job.Case {
		return []job.Case{{Args: []json.RawMessage{raw("1")}, Expected: raw(expected)}}
	}
	return map[string]newProgram{
		"values of JSON": {tests("def f(x): return (x, x)", job.Tests{Match: job.MatchJSON, Cases: one("[1, 1]")}), job.Succeeded},
		"a tolerance":    {tests("def f(x): return x + 0.001", job.Tests{AbsoluteTolerance: 0.01, Cases: one("1")}), job.Succeeded},
		"a wall of each case": {tests("import time\ndef f(x):\n    time.sleep(1.5)\n    return x",
			job.Tests{CaseWall: job.Duration(time.Second), Cases: one("1")}), job.Failed},
		"one process": {tests("seen = []\ndef f(x): seen.append(x)",
			job.Tests{Process: job.Shared, Check: "def check(candidate):\n    candidate(1)\n    assert candidate.__globals__['seen'] == [1]"}), job.Succeeded},
		"tagged variables": {job.Program{Python: &job.Python{Code: "assert x == (1,)", Tagged: true,
			Variables: map[string]json.RawMessage{"x": raw(`{"$tuple": [1]}`)}}}, job.Succeeded},
	}
}

// newProgram is a program that the previous release does not support, and its outcome.
type newProgram struct {
	program job.Program
	want    job.Outcome
}

// TestUpgradeFields checks that jobs which the previous release does not support wait for a new
// worker, and report that, under any dispatcher. No older worker ever runs them, as it would judge
// something else. Dispatcher and worker are upgraded and rolled back while such jobs are under way.
func TestUpgradeFields(t *testing.T) {
	today := built(t)
	s := realShape(t, plainDir(t), shape{workers: -1, lease: 30 * time.Second, programs: today, env: []string{"ASSAY_GRACE=30s"}})
	s.shape.programs = *previousPrograms
	s.addWorker("worker0")
	s.ready()
	jobs := fieldJobs{s, map[job.ID]job.Outcome{}}

	jobs.submit("an old worker")
	jobs.wait("of a dispatcher of today")
	s.replace(s.dispatchers[0], *previousPrograms)
	jobs.wait("of an old dispatcher")
	jobs.refused()

	s.replace(s.workers[0], today)
	jobs.end("by an old dispatcher and a worker of today")

	s.replace(s.dispatchers[0], today)
	jobs.submit("all of today")
	jobs.end("by programs of today")

	for range 3 {
		jobs.submit("a roll-back in the middle")
	}
	s.replace(s.workers[0], *previousPrograms)
	for range 3 {
		jobs.submit("after it")
	}
	s.replace(s.workers[0], today)
	jobs.end("after a roll-back of the worker")
	if n := s.count("SELECT count(*) FROM jobs WHERE losses > 0 OR tries <> 1"); n > 0 {
		t.Errorf("%d jobs were charged", n)
	}
	s.check()
}

// fieldJobs are submitted jobs that have not been seen to end, with their expected outcomes.
type fieldJobs struct {
	*storm
	open map[job.ID]job.Outcome
}

func (l fieldJobs) submit(what string) {
	l.t.Helper()
	for name, p := range newPrograms() {
		a, err := l.api.Submit(l.t.Context(), job.Spec{Name: name + ": " + what, Image: "python", Program: p.program})
		if err != nil {
			l.t.Fatal(name, err)
		}
		l.open[a.ID] = p.want
	}
}

// wait checks that none of them runs while jobs that every release supports do.
func (l fieldJobs) wait(at string) {
	l.t.Helper()
	for range 5 {
		r, err := l.api.Run(l.t.Context(), program("cell", "print(1)"))
		if err != nil || r.Outcome != job.Succeeded {
			l.t.Fatalf("%s: a job that every release knows: %+v, %v", at, r, err)
		}
		time.Sleep(time.Second)
	}
	for id := range l.open {
		j, err := l.api.Job(l.t.Context(), id, 0)
		if err != nil || j.State != job.Queued || !strings.Contains(j.Message, "waits for a worker") || !strings.Contains(j.Message, "protocol") {
			l.t.Errorf("%s: %s is %s: %q, %v", at, j.Spec.Name, j.State, j.Message, err)
		}
	}
}

// refused checks that the previous release refuses what it does not support.
func (l fieldJobs) refused() {
	l.t.Helper()
	for name, p := range newPrograms() {
		if a, err := l.api.Submit(l.t.Context(), job.Spec{Image: "python", Program: p.program}); err == nil || !errors.Is(err, job.ErrInvalid) {
			l.t.Errorf("an old dispatcher accepts %s: %+v, %v", name, a, err)
		}
	}
}

// end waits for all of them.
func (l fieldJobs) end(by string) {
	l.t.Helper()
	for id, want := range l.open {
		r, err := l.api.Result(l.t.Context(), l.ended(id))
		if err != nil || r.Outcome != want {
			raw, _ := json.Marshal(r)
			l.t.Errorf("%s: want %s: %.2000s, %v", by, want, raw, err)
		}
	}
	clear(l.open)
}

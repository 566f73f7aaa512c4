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

const adds = "#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }\n"

// newPrograms returns jobs that the previous release does not support, and their outcomes under a
// release that does. The previous release would misinterpret each: it ignores unknown fields.
func newPrograms() map[string]struct {
	program job.Program
	want    job.Outcome
} {
	sums := []job.Stdio{{Stdin: "1 2", Stdout: "3"}, {Stdin: "3 4", Stdout: "7"}}
	python := func(code string, t job.Tests) job.Program {
		t.Code = code
		return job.Program{Tests: &t}
	}
	type c = struct {
		program job.Program
		want    job.Outcome
	}
	return map[string]c{
		"c++, right":         {python(adds, job.Tests{Language: "cpp", Stdio: sums}), job.Succeeded},
		"c++, wrong":         {python(strings.Replace(adds, "+", "-", 1), job.Tests{Language: "cpp", Stdio: sums}), job.Failed},
		"c, which is python": {python("int\nmain = 3\nprint(3)", job.Tests{Language: "c", Stdio: []job.Stdio{{Stdout: "3"}}}), job.CompileError},
		"code":               {job.Program{Code: &job.Code{Language: "c++", Source: adds, Stdin: "1 2"}}, job.Succeeded},
		"other bytes":        {python("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", job.Tests{Stdio: []job.Stdio{{StdinBase64: "/wE=", StdoutBase64: "/wE="}}}), job.Succeeded},
		"other order":        {python("print(2)\nprint(1)", job.Tests{Stdio: []job.Stdio{{Stdout: "1\n2", Compare: job.CompareUnordered}}}), job.Succeeded},
		"a checker, no": {python("print(3)", job.Tests{Stdio: []job.Stdio{{Stdout: "3"}},
			Checker: &job.Checker{Argv: []string{"python3", "-c", "raise SystemExit(43)"}}}), job.Failed},
		"more time": {python("import time\ntime.sleep(1.5)\nprint(3)", job.Tests{Stdio: []job.Stdio{{Stdout: "3", Wall: job.Duration(time.Second)}},
			Limits: map[string]job.Multiplier{"python": {Wall: 5}}}), job.Succeeded},
	}
}

// TestUpgradeLanguages checks that jobs which the previous release does not support wait for a new
// worker, and report that, under any dispatcher. No older worker ever runs them, as it would judge
// something else. Dispatcher and worker are upgraded and rolled back while such jobs are under way.
func TestUpgradeLanguages(t *testing.T) {
	today := built(t)
	s := realShape(t, plainDir(t), shape{workers: -1, lease: 30 * time.Second, programs: today, env: []string{"ASSAY_GRACE=30s"}})
	s.shape.programs = *previousPrograms
	s.addWorker("worker0")
	s.ready()
	jobs := languageJobs{s, map[job.ID]job.Outcome{}}

	jobs.submit("an old worker")
	jobs.wait("of a dispatcher of today")
	s.replace(s.dispatchers[0], *previousPrograms)
	jobs.wait("of an old dispatcher")
	jobs.refused()

	s.replace(s.workers[0], today)
	jobs.end("by an old dispatcher and a worker of today", job.Failed)

	s.replace(s.dispatchers[0], today)
	eventually(t, "the worker has heard that all dispatchers are of today", func() bool {
		r, err := s.api.Run(t.Context(), job.Spec{Image: "python", Program: job.Program{Code: &job.Code{Language: "c", Source: "int"}}})
		return err == nil && r.Outcome == job.CompileError
	})
	jobs.submit("all of today")
	jobs.end("by programs of today", job.CompileError)

	for range 3 {
		jobs.submit("a roll-back in the middle")
	}
	s.replace(s.workers[0], *previousPrograms)
	for range 3 {
		jobs.submit("after it")
	}
	s.replace(s.workers[0], today)
	jobs.end("after a roll-back of the worker", job.CompileError)
	if n := s.count("SELECT count(*) FROM jobs WHERE losses > 0 OR tries <> 1"); n > 0 {
		t.Errorf("%d jobs were charged", n)
	}
	s.check()
}

// languageJobs are submitted jobs that have not been seen to end, with their expected outcomes.
type languageJobs struct {
	*storm
	open map[job.ID]job.Outcome
}

func (l languageJobs) submit(what string) {
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
func (l languageJobs) wait(at string) {
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
func (l languageJobs) refused() {
	l.t.Helper()
	for name, p := range newPrograms() {
		if a, err := l.api.Submit(l.t.Context(), job.Spec{Image: "python", Program: p.program}); err == nil || !errors.Is(err, job.ErrInvalid) {
			l.t.Errorf("an old dispatcher accepts %s: %+v, %v", name, a, err)
		}
	}
}

// end waits for all of them. compileError is the name of that outcome.
func (l languageJobs) end(by string, compileError job.Outcome) {
	l.t.Helper()
	for id, want := range l.open {
		if want == job.CompileError {
			want = compileError
		}
		r, err := l.api.Result(l.t.Context(), l.ended(id))
		if err != nil || r.Outcome != want {
			raw, _ := json.Marshal(r)
			l.t.Errorf("%s: want %s: %.2000s, %v", by, want, raw, err)
		}
	}
	clear(l.open)
}

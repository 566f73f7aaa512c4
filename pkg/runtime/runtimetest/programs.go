package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// ProgramsConfig is a runtime with real walls. It should keep no warm slots, so that Leftovers only
// lists an attempt's remains.
type ProgramsConfig struct {
	Config

	// Leftovers lists the runtime's remaining resources on the host: containers, control groups,
	// mounts, processes. Nil means none.
	Leftovers func() []string
}

// promptly is how long a program may live after its limit.
const promptly = 500 * time.Millisecond

// program is one case: a program, its policy, and the expected result.
type program struct {
	name    string
	run     job.Program
	edit    func(*policy.Policy)
	files   []runtime.File
	secrets map[string]string
	with    exchange
	outcome job.Outcome
	code    int           // for outcomes with one
	atMost  time.Duration // limit of its own time in Run; 0: a minute
	check   func(*testing.T, *ran)
	loosely []job.Outcome // further accepted outcomes

	// Further accepted outcomes with a separate kernel, which does not report reasons to the worker,
	// or may die of a bomb.
	foreign []job.Outcome
}

// ran is the result of a program.
type ran struct {
	*runtime.Report
	took      time.Duration
	artifacts map[string]string
}

// Programs tests the walls with programs that attack them, and checks that they leave nothing on
// the host.
func Programs(t *testing.T, cfg ProgramsConfig) {
	s := newSuite(t, cfg.Config)
	for _, group := range []struct {
		name     string
		programs []program
	}{
		{"ends", endings()}, {"limits", limits()}, {"output", output()}, {"walls", walls()}, {"network", networks(t)}, {"secrets", secrets()}, {"syscalls", syscalls()}, {"imports", imports()},
		{"files", inputsAndArtifacts()}, {"python", pythonPrograms()}, {"streams", streams()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range part(t, cfg.Config, group.programs) {
				t.Run(p.name, func(t *testing.T) {
					s.try(t, p)
					clean(t, cfg.Leftovers)
				})
			}
		})
	}
	t.Run("canceled with a stream", func(t *testing.T) {
		s.canceledStream(t)
		clean(t, cfg.Leftovers)
	})
	t.Run("canceled", func(t *testing.T) {
		s.cancelWithDaemons(t)
		clean(t, cfg.Leftovers)
	})
}

func (s *suite) try(t *testing.T, p program) {
	t.Helper()
	a := s.attempt(t, p.run, p.edit)
	a.Files, a.Secrets = p.files, p.secrets
	got := &ran{artifacts: map[string]string{}}
	a.Collect = func(_ context.Context, path string, _ int64, r io.Reader) error {
		var b bytes.Buffer
		_, err := io.Copy(&b, r)
		got.artifacts[path] = b.String()
		return err
	}
	slot := s.acquire(t, p.run.Kind())
	begin := time.Now()
	rep, err := p.with.run(t.Context(), slot, a)
	got.took = time.Since(begin)
	slot.Close()
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	got.Report = rep
	if s.Isolation == policy.GVisor && slices.Contains(p.foreign, rep.Outcome) {
		return
	}
	p.judge(t, got)
	if t.Failed() {
		t.Logf("outcome %s (%s), exit code %v, signal %q, took %v\nstdout: %.2000s\nstderr: %.2000s\nexception: %+v\nusage: %+v\nfeedback: %q",
			rep.Outcome, rep.Message, rep.ExitCode, rep.Signal, got.took, rep.Stdout.Text, rep.Stderr.Text, rep.Exception, rep.Usage, rep.Feedback)
	}
}

func (p *program) judge(t *testing.T, got *ran) {
	t.Helper()
	want := append([]job.Outcome{p.outcome}, p.loosely...)
	found := false
	for _, o := range want {
		found = found || got.Outcome == o
	}
	if !found {
		t.Errorf("outcome %s, want one of %v", got.Outcome, want)
	}
	if got.ExitCode != nil && *got.ExitCode != p.code && len(p.loosely) == 0 {
		t.Errorf("exit code %d, want %d", *got.ExitCode, p.code)
	}
	// Waits for a core depend on the machine's load.
	if own := got.took - time.Duration(got.Usage.WaitedMS*float64(time.Millisecond)); p.atMost != 0 && own > p.atMost {
		t.Errorf("took %v of its own time, and %v in all, want at most %v", own, got.took, p.atMost)
	}
	if p.outcome != job.Succeeded && got.Message == "" {
		t.Error("no message says why")
	}
	if p.check != nil {
		p.check(t, got)
	}
}

// clean waits for the destruction of the slot in the background.
func clean(t *testing.T, leftovers func() []string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := leftovers()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left on the host: %q", left)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// gone fails if a process of the host has mark in its command line.
func gone(t *testing.T, mark string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(mark)) {
			t.Errorf("survivor: %s is %q", filepath.Dir(f), bytes.ReplaceAll(data, []byte{0}, []byte(" ")))
		}
	}
}

func sh(script string) job.Program {
	return job.Program{Command: &job.Command{Argv: []string{"bash", "-c", script}}}
}

func py(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }

// daemons returns a script that leaves processes behind in every way that a shell supports, all
// with mark in their command line, and then continues.
func daemons(mark string) string {
	return fmt.Sprintf(`
		sleep 1000.%[1]s &
		setsid sleep 1001.%[1]s &
		nohup setsid sleep 1002.%[1]s >/dev/null 2>&1 </dev/null &
		(trap '' TERM INT HUP; setsid bash -c 'while :; do sleep 1003.%[1]s; done' &) 
		disown -a
	`, mark)
}

func wall(d time.Duration) func(*policy.Policy) {
	return func(p *policy.Policy) { p.Wall = job.Duration(d) }
}

func endings() []program {
	const mark = "87412"
	return []program{
		{name: "success", run: sh("echo hello"), outcome: job.Succeeded, check: stdoutIs("hello\n")},
		{name: "exit code", run: sh("exit 3"), outcome: job.Failed, code: 3},
		{name: "own exit code 137", run: sh("exit 137"), outcome: job.Failed, code: 137},
		{name: "own exit code 143", run: sh("exit 143"), outcome: job.Failed, code: 143},
		{name: "kills itself", run: sh("kill -9 $$"), outcome: job.Signaled, check: signalIs("SIGKILL")},
		{name: "segmentation fault", run: py("import ctypes; ctypes.string_at(0)"), outcome: job.Signaled, check: signalIs("SIGSEGV")},
		{name: "no such program", run: command("no-such-program"), outcome: job.Failed, code: 127},
		{name: "no such path", run: command("/no/such/program"), outcome: job.Failed, code: 127},
		{name: "not executable", run: command("/etc/passwd"), outcome: job.Failed, code: 126},
		{name: "a directory", run: command("/usr"), outcome: job.Failed, code: 126},
		{name: "no such directory", outcome: job.Failed, code: 126,
			run: job.Program{Command: &job.Command{Argv: []string{"true"}, Dir: "/no/such"}}},
		{name: "stdin", outcome: job.Succeeded, check: stdoutIs("some\ninput"),
			run: job.Program{Command: &job.Command{Argv: []string{"cat"}, Stdin: "some\ninput"}}},
		{name: "no stdin", run: command("cat"), outcome: job.Succeeded, check: stdoutIs("")},
		{name: "working directory", run: command("pwd"), outcome: job.Succeeded, check: stdoutIs("/workspace\n")},
		{name: "daemons do not delay the end", run: sh(daemons(mark) + "echo done"), outcome: job.Succeeded, atMost: 5 * time.Second,
			check: func(t *testing.T, r *ran) {
				if !strings.Contains(r.Stdout.Text, "done") {
					t.Errorf("stdout = %q", r.Stdout.Text)
				}
				gone(t, mark)
			}},
		{name: "wall clock", run: sh(daemons(mark) + "trap '' TERM; setsid sleep 1000; sleep 1000"), edit: wall(500 * time.Millisecond),
			outcome: job.TimedOut, check: func(t *testing.T, r *ran) {
				gone(t, mark)
				own := time.Duration((r.Usage.WallMS - r.Usage.WaitedMS) * float64(time.Millisecond))
				if over := own - 500*time.Millisecond; r.Usage.WallMS < 500 || over > promptly {
					t.Errorf("ended %v after its limit, want at most %v: %+v", over, promptly, r.Usage)
				}
			}},
		{name: "steps", outcome: job.Succeeded, run: steps(
			job.Step{Name: "compile", Argv: []string{"gcc", "-o", "a.out", "-x", "c", "-"}, Stdin: `#include <stdio.h>` + "\n" + `int main(){puts("compiled");}`},
			job.Step{Name: "run", Argv: []string{"./a.out"}}), check: stepsAre("compiled\n", job.Succeeded, job.Succeeded)},
		{name: "failing step", outcome: job.Failed, code: 2, run: steps(
			job.Step{Name: "one", Argv: []string{"true"}}, job.Step{Name: "two", Argv: []string{"bash", "-c", "echo broken; exit 2"}},
			job.Step{Name: "three", Argv: []string{"true"}}), check: stepsAre("broken\n", job.Succeeded, job.Failed)},
		{name: "step with its own limit", outcome: job.TimedOut, atMost: 5 * time.Second, run: steps(
			job.Step{Name: "one", Argv: []string{"true"}},
			job.Step{Name: "two", Argv: []string{"sleep", "1000"}, Policy: []byte(`{"wall": "200ms"}`)}),
			check: stepsAre("", job.Succeeded, job.TimedOut)},
		{name: "steps share the wall clock", outcome: job.TimedOut, atMost: 5 * time.Second, edit: wall(600 * time.Millisecond), run: steps(
			job.Step{Name: "one", Argv: []string{"sleep", "0.4"}}, job.Step{Name: "two", Argv: []string{"sleep", "0.4"}}),
			check: stepsAre("", job.Succeeded, job.TimedOut)},
		{name: "a step's daemons do not reach the next", outcome: job.Succeeded, run: steps(
			job.Step{Name: "one", Argv: []string{"bash", "-c", daemons(mark)}},
			job.Step{Name: "two", Argv: []string{"bash", "-c", "grep -l sleep /proc/[0-9]*/comm | wc -l"}}),
			check: stepsAre("0\n", job.Succeeded, job.Succeeded)},
	}
}

func command(argv ...string) job.Program { return job.Program{Command: &job.Command{Argv: argv}} }

func steps(s ...job.Step) job.Program { return job.Program{Command: &job.Command{Steps: s}} }

func stdoutIs(want string) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		if r.Stdout.Text != want {
			t.Errorf("stdout = %q, want %q", r.Stdout.Text, want)
		}
	}
}

func signalIs(want string) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		if r.Signal != want || r.ExitCode != nil {
			t.Errorf("signal = %q, exit code %v, want %q and none", r.Signal, r.ExitCode, want)
		}
	}
}

func stepsAre(stdout string, outcomes ...job.Outcome) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		stdoutIs(stdout)(t, r)
		var got []job.Outcome
		for _, s := range r.Steps {
			got = append(got, s.Outcome)
		}
		if fmt.Sprint(got) != fmt.Sprint(outcomes) {
			t.Errorf("steps ended as %v, want %v", got, outcomes)
		}
	}
}

func (s *suite) cancelWithDaemons(t *testing.T) {
	const mark = "87413"
	ctx, cancel := context.WithCancelCause(t.Context())
	slot := s.acquire(t, "command")
	a := s.attempt(t, sh(daemons(mark)+"sleep 1000"), nil)
	timer := time.AfterFunc(500*time.Millisecond, func() { cancel(runtime.ErrCanceled) })
	defer timer.Stop()
	rep, err := slot.Run(ctx, a)
	if err != nil || rep.Outcome != job.OutcomeCanceled {
		t.Errorf("Run = %+v, %v, want canceled", rep, err)
	}
	gone(t, mark)
	slot.Close()
	if _, err := slot.Run(t.Context(), a); err == nil || errors.Is(err, job.ErrInvalid) {
		t.Errorf("second Run = %v, want an error of ours", err)
	}
}

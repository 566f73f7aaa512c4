package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// limits is a policy as a client writes it.
type limits map[string]any

// story is a program, and the required content of its record. WORD in it is replaced by a word
// unique to this run, which identifies its processes on the host.
type story struct {
	name    string
	program job.Program
	policy  limits
	outcome job.Outcome
	check   func(t *testing.T, r *job.Result)
}

func python(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }

func shell(script string) job.Program {
	return job.Program{Command: &job.Command{Argv: []string{"bash", "-c", script}}}
}

// graded returns tests of f, which doubles its argument, of every kind.
func graded(code string) job.Program {
	return job.Program{Tests: &job.Tests{
		Code: code, Function: "f", Check: "def check(candidate):\n    assert candidate('ab') == 'abab'\n",
		Cases: []job.Case{{Args: []json.RawMessage{[]byte("2")}, Expected: []byte("4")}, {Args: []json.RawMessage{[]byte("3")}, Expected: []byte("6")}},
		Stdio: []job.Stdio{{Stdin: "4\n", Stdout: "8\n"}},
	}}
}

// A sleeper without a parent, in a session of its own, that ignores signals.
const orphan = `
import os, signal, time
for s in range(1, 32):
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("python3", ["python3", "-c", "import time; time.sleep(1000)", "WORD"])
    os._exit(0)
`

var stories = []story{
	{name: "success", program: python("print(6 * 7)\n6 * 7"), outcome: job.Succeeded, check: func(t *testing.T, r *job.Result) {
		if r.Stdout.Text != "42\n" || r.Value == nil || r.Value.Repr != "42" || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Errorf("stdout %q, value %+v, exit code %v", r.Stdout.Text, r.Value, r.ExitCode)
		}
		if len(r.Enforcement) == 0 || r.Usage.MemoryPeakBytes == 0 || r.Usage.CPUMS == 0 || r.ImageDigest == "" || len(r.Attempts) != 1 {
			t.Errorf("not all is told: %d capabilities, %+v, digest %q, attempts %+v", len(r.Enforcement), r.Usage, r.ImageDigest, r.Attempts)
		}
	}},
	{name: "graded", program: graded("def f(x):\n    return x * 2\nif __name__ == '__main__':\n    print(f(int(input())))\n"), outcome: job.Succeeded, check: func(t *testing.T, r *job.Result) {
		if g := r.Tests; g == nil || g.Passed != 4 || g.Total != 4 || *g.Score != 1 || len(r.Feedback) != 0 {
			t.Errorf("%+v, feedback %q", g, r.Feedback)
		}
		if len(r.Enforcement) == 0 || r.Usage.CPUMS == 0 || r.Usage.WallMS == 0 || r.ImageDigest == "" {
			t.Errorf("not all is told: %d capabilities, %+v, digest %q", len(r.Enforcement), r.Usage, r.ImageDigest)
		}
	}},
	{name: "graded, and wrong", program: graded("import os\ndef f(x):\n    if x == 3:\n        os._exit(0)\n    return x * 2\nprint('all tests passed')\n"), outcome: job.Failed, check: func(t *testing.T, r *job.Result) {
		if g := r.Tests; g == nil || g.Passed != 2 || g.Failed != 2 || *g.Score != 0.5 || len(r.Feedback) != 2 {
			t.Errorf("%+v, feedback %q", g, r.Feedback)
		}
	}},
	{name: "graded, by tests that fail by themselves", program: job.Program{Tests: &job.Tests{
		Code: "def f(x): return x", Setup: "secret = 'hidden'", Function: "f", Check: "def check(candidate):\n    r = candidate(secret)\n    assert same(r, secret)\n",
		Cases: []job.Case{{Args: []json.RawMessage{[]byte("1")}}}}}, outcome: job.CheckError, check: func(t *testing.T, r *job.Result) {
		if g := r.Tests; g == nil || g.Passed != 1 || g.Failed != 0 || g.Errors != 1 || g.Score != nil || g.Cases[1].Outcome != job.CheckError || r.Exception != nil {
			t.Errorf("%+v, exception %+v", g, r.Exception)
		}
	}},
	{name: "graded, and raises", program: job.Program{Tests: &job.Tests{
		Code: "class Solution:\n    async def f(self, x):\n        return [][x]", Function: "Solution().f", Check: "def check(candidate):\n    assert candidate(1) == 'hidden'\n"}},
		outcome: job.Failed, check: func(t *testing.T, r *job.Result) {
			if e := r.Exception; e == nil || e.Type != "IndexError" || e.Line != 3 || strings.Contains(e.Traceback, "hidden") || !strings.Contains(e.Traceback, "return [][x]") {
				t.Errorf("%+v", e)
			}
		}},
	{name: "graded, without a solution in python", outcome: job.Succeeded, program: job.Program{Tests: &job.Tests{Stdio: []job.Stdio{
		{Argv: []string{"tr", "a-z", "A-Z"}, Stdin: "ab\n", Stdout: "AB\n"}, {Argv: []string{"ls", "-A"}, Stdout: ""}, // in /workspace
	}}}, check: func(t *testing.T, r *job.Result) {
		if g := r.Tests; g == nil || g.Passed != 2 || g.Total != 2 || g.Score == nil || *g.Score != 1 {
			t.Errorf("%+v, feedback %q", g, r.Feedback)
		}
	}},
	{name: "exit code", program: shell("echo out; echo err >&2; exit 3"), outcome: job.Failed, check: func(t *testing.T, r *job.Result) {
		if r.ExitCode == nil || *r.ExitCode != 3 || r.Stdout.Text != "out\n" || r.Stderr.Text != "err\n" {
			t.Errorf("exit code %v, stdout %q, stderr %q", r.ExitCode, r.Stdout.Text, r.Stderr.Text)
		}
	}},
	{name: "exception", program: python("x = 1\n\ndef f():\n    raise ValueError('no %d' % x)\n\nf()"), outcome: job.Exception,
		check: func(t *testing.T, r *job.Result) {
			e := r.Exception
			if e == nil || e.Type != "ValueError" || e.Message != "no 1" || !strings.Contains(e.Traceback, "line 6") || !strings.Contains(e.Traceback, "line 4") {
				t.Errorf("exception %+v", e)
			}
		}},
	{name: "timeout", program: python(orphan + "while True: pass"), policy: limits{"wall": "1s"}, outcome: job.TimedOut,
		check: func(t *testing.T, r *job.Result) {
			if own := r.Usage.WallMS - r.Usage.WaitedMS; own < 1000 || own > 5000 { // not in time, but not never: other tests measure how soon
				t.Errorf("killed after %v ms of 1000: %+v", own, r.Usage)
			}
		}},
	{name: "orphan of a success", program: python(orphan), outcome: job.Succeeded},
	{name: "memory", program: python("x = bytearray(512 << 20)"), policy: limits{"memory": "64Mi"}, outcome: job.OutOfMemory},
	{name: "memory of a child", policy: limits{"memory": "64Mi"}, outcome: job.OutOfMemory,
		program: shell("python3 -c 'x = bytearray(512 << 20)'; exec -a WORD sleep 1000")},
	{name: "fork bomb", program: shell("bomb() { bomb | bomb & }; bomb; exec -a WORD sleep 1000"), policy: limits{"wall": "2s"},
		outcome: "", check: func(t *testing.T, r *job.Result) {
			if own := r.Enforcement[0].Applied == "gvisor"; own && r.Outcome == job.TimedOut {
				return // its kernel counts its processes, and no other kernel does
			}
			if r.Outcome != job.TimedOut && r.Outcome != job.ProcessLimit || r.Usage.ProcessesPeak != 64 {
				t.Errorf("ended as %s with %d processes", r.Outcome, r.Usage.ProcessesPeak)
			}
		}},
	{name: "a gibibyte of output", policy: limits{"wall": "5m", "cpu_time": "5m"}, outcome: job.Succeeded,
		program: shell("echo first; head -c 1073741824 /dev/zero | tr '\\0' x; echo last"),
		check: func(t *testing.T, r *job.Result) {
			if r.Stdout.Bytes != 1<<30+11 || !r.Stdout.Truncated || !strings.HasPrefix(r.Stdout.Text, "first\n") || !strings.HasSuffix(r.Stdout.Text, "last\n") || len(r.Stdout.Text) > 70<<10 {
				t.Errorf("%d bytes, truncated %v, %d kept", r.Stdout.Bytes, r.Stdout.Truncated, len(r.Stdout.Text))
			}
		}},
	{name: "disk full", program: shell("head -c 200000000 /dev/zero > /workspace/big"), outcome: job.DiskLimit},
	{name: "segmentation fault", program: shell("kill -SEGV $$"), outcome: job.Signaled, check: func(t *testing.T, r *job.Result) {
		if r.Signal != "SIGSEGV" {
			t.Errorf("signal %q", r.Signal)
		}
	}},
	{name: "segmentation fault of python", program: python("import ctypes; ctypes.string_at(0)"), outcome: job.Signaled},
	{name: "exit code of an OOM kill", program: shell("exit 137"), outcome: job.Failed, check: func(t *testing.T, r *job.Result) {
		if r.ExitCode == nil || *r.ExitCode != 137 {
			t.Errorf("exit code %v", r.ExitCode)
		}
	}},
	{name: "output that is not text", program: shell(`printf 'a\0b\xffc'`), outcome: job.Succeeded, check: func(t *testing.T, r *job.Result) {
		if r.Stdout.Bytes != 5 || !strings.HasPrefix(r.Stdout.Text, "a") || !strings.HasSuffix(r.Stdout.Text, "b\uFFFDc") {
			t.Errorf("stdout %q of %d bytes", r.Stdout.Text, r.Stdout.Bytes)
		}
	}},
	{name: "artifacts", program: shell("mkdir -p out; echo good > out/good; ln -s /etc/shadow out/link; ln -s / out/root; mkfifo out/fifo"),
		policy: limits{"artifacts": limits{"paths": []string{"/workspace/out/**"}}}, outcome: job.Succeeded, check: func(t *testing.T, r *job.Result) {
			if len(r.Artifacts) != 1 || r.Artifacts[0].Path != "/workspace/out/good" || r.Artifacts[0].Bytes != 5 {
				t.Errorf("artifacts %+v", r.Artifacts)
			}
		}},
	{name: "artifact through a directory link", program: shell("ln -s /etc out"), outcome: job.Succeeded,
		policy: limits{"artifacts": limits{"paths": []string{"/workspace/out/shadow", "/workspace/out/*"}}}, check: func(t *testing.T, r *job.Result) {
			if len(r.Artifacts) != 0 {
				t.Errorf("artifacts %+v", r.Artifacts)
			}
		}},
}

// TestStories runs every story at every level of isolation. Then it stops the fleet and looks for
// its leftovers.
func TestStories(t *testing.T) {
	t.Parallel()
	tellAll(t, start(t), "e2e", levels)
}

var (
	levels = []string{"cell", "task", "gvisor"}
	// Faults are the same at every isolation: one isolation per run, another with each commit.
	faultsPart = testenv.NewPart("faults", len(levels))
)

// TestStoriesOverFaults runs the same over a store, a queue and an object store that sometimes
// fail.
func TestStoriesOverFaults(t *testing.T) {
	t.Parallel()
	tellAll(t, startFaulty(t), "e2e-faults", testenv.Of(t, faultsPart, levels))
}

// tellAll runs every story on a fleet, at these levels of isolation. Words that begin with mark
// identify its processes.
func tellAll(t *testing.T, f *fleet, mark string, levels []string) {
	t.Run("stories", func(t *testing.T) {
		for _, level := range levels {
			for i, s := range stories {
				t.Run(level+"/"+s.name, func(t *testing.T) {
					t.Parallel()
					s.tell(t, f, level, fmt.Sprintf("%s-%s-%d", mark, level, i))
				})
			}
			t.Run(level+"/cancel", func(t *testing.T) { t.Parallel(); cancelRunning(t, f, level, mark+"-cancel-"+level) })
		}
	})
	t.Run("unknown image", func(t *testing.T) { unknownImage(t, f) })
	t.Run("one bad line", func(t *testing.T) { oneBadLine(t, f) })
	t.Run("secrets", func(t *testing.T) { tellSecrets(t, f) })
	t.Run("batches", func(t *testing.T) { batches(t, f) })
	t.Run("large outputs", func(t *testing.T) { largeOutputs(t, f) })
	t.Run("two dispatchers", func(t *testing.T) { secondDispatcher(t, f) })
	t.Run("kill -9 of the worker", func(t *testing.T) { killWorker(t, f) })
}

func (s *story) tell(t *testing.T, f *fleet, level, word string) {
	r, err := f.api.Run(t.Context(), spec(t, s.program, level, s.policy, word))
	if err != nil {
		t.Fatal(err)
	}
	if s.outcome != "" && r.Outcome != s.outcome {
		t.Errorf("outcome %s (%s), want %s; stderr %q", r.Outcome, r.Message, s.outcome, r.Stderr.Text)
	}
	if s.check != nil {
		s.check(t, r)
	}
	if pids := running(word); len(pids) > 0 {
		t.Errorf("processes go on: %v", pids)
	}
}

// spec returns a job at a level of isolation.
func spec(t *testing.T, p job.Program, level string, policy limits, word string) job.Spec {
	t.Helper()
	with := limits{"isolation": level}
	maps.Copy(with, policy)
	raw, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case p.Python != nil:
		p.Python = &job.Python{Code: strings.ReplaceAll(p.Python.Code, "WORD", word)}
	case p.Command != nil:
		argv := append([]string{}, p.Command.Argv...)
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], "WORD", word)
		}
		command := *p.Command
		command.Argv = argv
		p.Command = &command
	}
	return job.Spec{Program: p, Policy: raw}
}

// A running job ends within two seconds of its cancellation, with all of its processes.
func cancelRunning(t *testing.T, f *fleet, level, word string) {
	accepted, err := f.api.Submit(t.Context(), spec(t, python(orphan+"time.sleep(1000)"), level, nil, word))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program runs", func() bool {
		if level == "gvisor" { // its processes are not processes of this host
			j, err := f.api.Job(t.Context(), accepted.ID, 0)
			return err == nil && j.State == job.Running
		}
		return len(running(word)) > 0
	})
	asked := time.Now()
	if _, err := f.api.Cancel(t.Context(), accepted.ID); err != nil {
		t.Fatal(err)
	}
	r, err := f.api.Result(t.Context(), accepted.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("canceled within %v", time.Since(asked))
	if r.Outcome != job.OutcomeCanceled || r.State != job.Canceled {
		t.Errorf("ended as %s, %s", r.State, r.Outcome)
	}
	if pids := running(word); len(pids) > 0 {
		t.Errorf("processes go on: %v", pids)
	}
}

package grade

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func python3(code string) *job.Code { return &job.Code{Language: "python", Source: code} }

// sameSum accepts any numbers with the same sum as the answer's.
const sameSum = `
import sys, os
want = sum(map(int, open(sys.argv[2]).read().split()))
got = sys.stdin.read().split()
try:
    ok = sum(map(int, got)) == want
except ValueError:
    ok = False
if not ok:
    open(os.path.join(sys.argv[3], "judgemessage.txt"), "w").write("the sum is not %d" % want)
sys.exit(42 if ok else 43)
`

// firstCase grades tests and returns the first case.
func firstCase(t *testing.T, tests *job.Tests, edit ...func(*policy.Policy)) (*runtime.Report, job.CaseResult) {
	t.Helper()
	if err := (job.Spec{Program: job.Program{Tests: tests}}).Validate(); err != nil {
		t.Fatal(err)
	}
	r := runTests(t, tests, edit...)
	return r, r.Tests.Cases[0]
}

func TestCheckers(t *testing.T) {
	t.Parallel()
	const echo = "import sys\nsys.stdout.write(sys.stdin.read())"
	kattis := func(code string) *job.Checker { return &job.Checker{Code: python3(code)} }
	testlib := func(code string) *job.Checker { return &job.Checker{Code: python3(code), Protocol: job.Testlib} }
	score := func(text string) string {
		return "import sys\nopen(sys.argv[3] + '/score.txt', 'w').write('" + text + "')\nsys.exit(42)"
	}
	for name, c := range map[string]struct {
		checker *job.Checker
		stdin   string
		want    job.Outcome
		says    string
		score   float64 // of a case that failed
	}{
		"right":                {kattis(sameSum), "1 2 3", job.Succeeded, "", 0},
		"wrong":                {kattis(sameSum), "1 2", job.Failed, "wrong answer: the sum is not 6", 0},
		"argv":                 {&job.Checker{Argv: []string{"sh", "-c", "exit 42"}}, "", job.Succeeded, "", 0},
		"argv, testlib":        {&job.Checker{Argv: []string{"sh", "-c", "exit 1"}, Protocol: job.Testlib}, "", job.Failed, "wrong answer", 0},
		"to be compiled":       {&job.Checker{Code: &job.Code{Language: "c", Source: "x"}}, "", job.CheckError, "the checker cannot be started: it does not compile", 0},
		"crashes":              {kattis("1/0"), "", job.CheckError, "exit code 1, which is neither 42 nor 43: ", 0},
		"exits with 0":         {kattis("pass"), "", job.CheckError, "exit code 0, which is neither", 0},
		"a signal":             {kattis("import os\nos.kill(os.getpid(), 11)"), "", job.CheckError, "did not come to a verdict: signaled", 0},
		"never ends":           {&job.Checker{Code: python3("while True: pass"), Wall: job.Duration(300 * time.Millisecond)}, "", job.CheckError, "did not come to a verdict: timed_out", 0},
		"message is cut":       {kattis("import sys\nopen(sys.argv[3] + '/judgemessage.txt', 'w').write('x' * 100000)\nsys.exit(43)"), "", job.Failed, "xxx", 0},
		"message is text":      {kattis("import sys\nopen(sys.argv[3] + '/judgemessage.txt', 'wb').write(b'\\x1b[2J\\xff\\x00')\nsys.exit(43)"), "", job.Failed, "wrong answer: \uFFFD[2J\uFFFD\uFFFD", 0},
		"flags":                {&job.Checker{Code: python3("import sys\nsys.exit(42 if sys.argv[4:] == ['a', 'b c'] else 43)"), Flags: []string{"a", "b c"}}, "", job.Succeeded, "", 0},
		"score":                {kattis(score("0.25")), "", job.Failed, "it has 0.25 of 1 points", 0.25},
		"full score":           {&job.Checker{Code: python3(score("40")), MaxScore: 40}, "", job.Succeeded, "", 0},
		"too high a score":     {kattis(score("1.5")), "", job.CheckError, "not a number from 0 to its max_score, 1", 0},
		"no score":             {kattis(score("nan")), "", job.CheckError, "the checker gave nan as score.txt", 0},
		"testlib, ok":          {testlib("import sys\ni, o, a = [open(f).read() for f in sys.argv[1:4]]\nsys.exit(0 if (i, o, a) == ('1 2 3', '1 2 3', '6') else 3)"), "1 2 3", job.Succeeded, "", 0},
		"testlib, wrong":       {testlib("import sys\nsys.stderr.write('wrong answer 1st words differ\\n')\nsys.exit(1)"), "", job.Failed, "wrong answer: wrong answer 1st words differ", 0},
		"testlib, format":      {testlib("import sys\nsys.exit(2)"), "", job.Failed, "wrong answer", 0},
		"testlib, fail":        {testlib("import sys\nsys.stderr.write('FAIL no answer\\n')\nsys.exit(3)"), "", job.CheckError, "exit code 3, which is its own failure: FAIL no answer", 0},
		"testlib, points":      {testlib("import sys\nsys.stderr.write('points 0.5 half\\n')\nsys.exit(7)"), "", job.Failed, "it has 0.5 of 1 points: half", 0.5},
		"testlib, full points": {testlib("import sys\nsys.stderr.write('points 1.0000\\n')\nsys.exit(7)"), "", job.Succeeded, "", 0},
		"testlib, no points":   {testlib("import sys\nsys.exit(7)"), "", job.CheckError, "not a number", 0},
		"testlib, exception":   {testlib("int('x')"), "", job.CheckError, "raised an exception: ValueError", 0},
		"testlib, other code":  {testlib("import sys\nsys.exit(77)"), "", job.CheckError, "exit code 77", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, got := firstCase(t, &job.Tests{Code: echo, Checker: c.checker, Stdio: []job.Stdio{{Stdin: c.stdin, Stdout: "6"}, {Stdin: c.stdin, Stdout: "6"}}})
			if got.Outcome != c.want || !strings.Contains(got.Message, c.says) || got.Passed != (c.want == job.Succeeded) || len(got.Message) > 700 {
				t.Errorf("%+v", got)
			}
			if (got.Score != nil) != (c.score > 0) || got.Score != nil && *got.Score != c.score {
				t.Errorf("score %v, want %v", got.Score, c.score)
			}
			switch c.want {
			case job.CheckError:
				if r.Outcome != job.CheckError || r.Tests.Score != nil || r.Tests.Cases[1].Outcome != job.OutcomeCanceled {
					t.Errorf("%s %+v", r.Outcome, r.Tests)
				}
			case job.Failed:
				if r.Outcome != job.Failed || r.Tests.Score == nil || *r.Tests.Score != c.score {
					t.Errorf("%s %+v", r.Outcome, r.Tests)
				}
			}
		})
	}
}

// fragile returns a checker that fails in some way for other text than numbers, and accepts the answer.
func fragile(protocol job.Protocol, fails, ends string) string {
	read := "text, answer = sys.stdin.read(), open(sys.argv[2]).read()"
	if protocol == job.Testlib {
		read = "text, answer = open(sys.argv[2]).read(), open(sys.argv[3]).read()"
	}
	return "import os, sys\n" + read + "\nif not text.strip().isdigit():\n    " + fails + "\ngood = text.strip() == answer.strip()\n" + ends
}

// TestOutputsThatBreakACheckerAreWrong checks that an output that breaks a checker is wrong if the checker accepts
// the answer. A checker that rejects the answer, or reports wrong tests, is broken.
func TestOutputsThatBreakACheckerAreWrong(t *testing.T) {
	t.Parallel()
	const kattis, testlib = "sys.exit(42 if good else 43)", "sys.exit(0 if good else 1)"
	for name, c := range map[string]struct {
		fails, ends string
		protocol    job.Protocol
		want        job.Outcome
	}{
		"an exception":          {"int(text)", kattis, "", job.Failed},
		"an exception, testlib": {"int(text)", testlib, job.Testlib, job.Failed},
		"a signal":              {"os.kill(os.getpid(), 11)", kattis, "", job.Failed},
		"no end":                {"while True: pass", kattis, "", job.Failed},
		"another exit code":     {"sys.exit(1)", kattis, "", job.Failed},
		"testlib says fail":     {"sys.exit(3)", testlib, job.Testlib, job.CheckError},
		"judgeerror.txt":        {"open(sys.argv[3] + '/judgeerror.txt', 'w').write('it is better than the answer'); os.abort()", kattis, "", job.CheckError},
		"a bad score":           {"open(sys.argv[3] + '/score.txt', 'w').write('nan'); sys.exit(42)", kattis, "", job.CheckError},
		"broken":                {"int(text)", "1/0", "", job.CheckError},
		"the answer is wrong":   {"int(text)", "sys.exit(43)", "", job.CheckError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := &job.Checker{Code: python3(fragile(c.protocol, c.fails, c.ends)), Protocol: c.protocol, Wall: job.Duration(3 * time.Second)}
			r, got := firstCase(t, &job.Tests{Code: "print('x')", Checker: checker, Stdio: []job.Stdio{{Stdout: "6"}}})
			if got.Outcome != c.want || got.Passed || r.Outcome != c.want || (r.Tests.Score == nil) != (c.want == job.CheckError) {
				t.Errorf("%s %+v", r.Outcome, got)
			}
			if (c.want == job.Failed) != strings.Contains(got.Message, "given the answer in place of this output, it accepts") {
				t.Errorf("it says %q", got.Message)
			}
		})
	}
}

// TestCheckersAreBrokenSoOften checks that a solution cannot use up checkers' time without limit.
func TestCheckersAreBrokenSoOften(t *testing.T) {
	t.Parallel()
	tests := &job.Tests{Code: "print('x')", Checker: &job.Checker{Code: python3(fragile("", "while True: pass", "sys.exit(42 if good else 43)")), Wall: job.Duration(3 * time.Second)}}
	for range 6 {
		tests.Stdio = append(tests.Stdio, job.Stdio{Stdout: "6"})
	}
	r, _ := firstCase(t, tests)
	if r.Outcome != job.Failed || r.Tests.Score == nil || *r.Tests.Score != 0 || r.Tests.Failed != 6 {
		t.Errorf("%s %+v", r.Outcome, r.Tests)
	}
	for i, c := range r.Tests.Cases {
		want := job.Failed
		if i >= mostBrittle {
			want = job.OutcomeCanceled
		}
		if c.Outcome != want {
			t.Errorf("case %d: %+v, want %s", i, c, want)
		}
	}
}

// TestCheckersAreAskedAboutOutputsOnly checks that a checker gets no output of a failed program, and that the
// program's exit codes are not taken for the checker's.
func TestCheckersAreAskedAboutOutputsOnly(t *testing.T) {
	t.Parallel()
	const forever = "while True: pass"
	for code, want := range map[string]job.Outcome{
		"import sys\nsys.exit(42)": job.Failed, "import sys\nsys.exit(43)": job.Failed, "1/0": job.Failed, "import os\nos.kill(os.getpid(), 9)": job.Signaled, forever: job.TimedOut,
	} {
		wall := job.Duration(time.Minute)
		if code == forever {
			wall = job.Duration(time.Second)
		}
		_, got := firstCase(t, &job.Tests{Code: code, Checker: &job.Checker{Argv: []string{"sh", "-c", "exit 42"}}, Stdio: []job.Stdio{{}}}, func(p *policy.Policy) { p.Wall = wall })
		if got.Outcome != want || got.Passed {
			t.Errorf("%q: %+v", code, got)
		}
	}
}

// TestCheckersHaveTheBytes checks that a checker gets the exact bytes of large and binary outputs.
func TestCheckersHaveTheBytes(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"odd bytes": `b"\x00\xff\xfe\r\n\x00" + "é".encode()`, "large": `bytes(range(256)) * 20000`, "none": `b""`,
	} {
		for protocol, read := range map[job.Protocol]string{job.Kattis: "sys.stdin.buffer.read()", job.Testlib: "open(sys.argv[2], 'rb').read()"} {
			check := "import sys\nok = " + read + " == " + code + "\nsys.exit((42 if ok else 43) if " + map[bool]string{true: "True", false: "False"}[protocol == job.Kattis] + " else (0 if ok else 1))"
			_, got := firstCase(t, &job.Tests{Code: "import sys\nsys.stdout.buffer.write(" + code + ")", Checker: &job.Checker{Code: python3(check), Protocol: protocol}, Stdio: []job.Stdio{{}}})
			if !got.Passed {
				t.Errorf("%s, %s: %+v", name, protocol, got)
			}
		}
	}
	_, got := firstCase(t, &job.Tests{Code: "import sys\nsys.stdout.write('x' * (17 << 20))", Checker: &job.Checker{Argv: []string{"sh", "-c", "exit 42"}}, Stdio: []job.Stdio{{}}})
	if got.Outcome != job.Failed || !strings.Contains(got.Message, "it wrote 17825792 bytes") {
		t.Errorf("%+v", got)
	}
}

// TestCasesOfBytes checks cases with binary data, by value or by reference, which is compared by its bytes.
func TestCasesOfBytes(t *testing.T) {
	t.Parallel()
	const echo = "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())"
	blobs := map[string][]byte{"sha256:" + strings.Repeat("a", 64): []byte("\x00\xff large \xfe"), "sha256:" + strings.Repeat("b", 64): bytes.Repeat([]byte("1234567\n"), 1<<18)}
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	tests := &job.Tests{Code: echo, Stdio: []job.Stdio{
		{StdinBase64: "AP/+", StdoutBase64: "AP/+", Compare: job.CompareExact},
		{StdinBase64: "AP/+", StdoutBase64: "AP/9"},
		{StdinBase64: "/w==", Stdout: "\uFFFD"},
		{StdinBlob: a, StdoutBlob: a, Compare: job.CompareExact},
		{StdinBlob: b, StdoutBlob: b},
		{StdinBlob: b, StdoutBlob: b, Compare: job.CompareUnordered},
		{StdinBlob: b, StdoutBlob: a},
		{Stdin: "x", StdoutBlob: b},
		{StdinBlob: b, Stdout: "x"},
	}}
	if err := (job.Spec{Program: job.Program{Tests: tests}}).Validate(); err != nil {
		t.Fatal(err)
	}
	closed := 0
	r, err := Run(t.Context(), Config{
		Tests: tests, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: policy.Default()}},
		Acquire: func(context.Context, string, string) (runtime.Slot, error) { return local{}, nil },
		Blob: func(_ context.Context, ref string) (*Blob, error) { // as on a disk: no copy of its bytes is in memory
			open := func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(blobs[ref])), nil
			}
			return &Blob{File: runtime.File{Open: open}, Bytes: int64(len(blobs[ref])), Close: func() { closed++ }}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false, true, true, true, false, false, false} {
		if c := r.Tests.Cases[i]; c.Passed != want {
			t.Errorf("case %d: %+v", i, c)
		}
	}
	if closed != 10 {
		t.Errorf("%d blobs were closed, want 10", closed)
	}
	if c := r.Tests.Cases[1]; c.Expected != "\x00\uFFFD" || !strings.Contains(c.Message, "line 1 of the output") {
		t.Errorf("%+v", c)
	}
}

// TestBlobsThatCannotBeHad checks that there is no verdict without a blob of the tests.
func TestBlobsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	_, err := Run(t.Context(), Config{
		Tests:   &job.Tests{Code: "print(1)", Stdio: []job.Stdio{{StdinBlob: "sha256:x"}}},
		Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: policy.Default()}},
		Acquire: func(context.Context, string, string) (runtime.Slot, error) { return local{}, nil },
		Blob:    func(context.Context, string) (*Blob, error) { return nil, gone },
	})
	if !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// TestMultipliers checks that the limits of a case are multiplied for the language of the solution.
func TestMultipliers(t *testing.T) {
	t.Parallel()
	second := job.Duration(time.Second)
	for name, c := range map[string]struct {
		limits map[string]job.Multiplier
		wall   job.Duration
		memory job.Size
	}{
		"none":     {nil, second, 32 * job.MiB},
		"python":   {map[string]job.Multiplier{"python": {Wall: 3, Memory: 2}}, 3 * second, 64 * job.MiB},
		"another":  {map[string]job.Multiplier{"cpp": {Wall: 3, Memory: 2}}, second, 32 * job.MiB},
		"too much": {map[string]job.Multiplier{"python": {Memory: 100}}, second, 256 * job.MiB},
	} {
		_, got := firstCase(t, &job.Tests{Code: "print(1)", Limits: c.limits, Stdio: []job.Stdio{{Stdout: "1", Wall: second, Memory: 32 * job.MiB}}})
		if got.Limits.Wall != c.wall || got.Limits.Memory != c.memory {
			t.Errorf("%s: %+v", name, got.Limits)
		}
		_, got = firstCase(t, &job.Tests{Code: "print(1)", Limits: c.limits, CaseWall: second, Stdio: []job.Stdio{{Stdout: "1"}}})
		if got.Limits.Wall != c.wall {
			t.Errorf("%s with case_wall: %+v", name, got.Limits)
		}
	}
}

// TestCaseWall checks that case_wall limits the cases without a wall of their own.
func TestCaseWall(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code":"def f(x):\n    while x: pass\n    return x","function":"f","case_wall":"300ms","cases":[{"args":[1],"expected":1},{"args":[0],"expected":0,"wall":"2s"},{"args":[0],"expected":0}],
		"stdio":[{"stdin":"","stdout":""}]}`)
	var limits []string
	for _, c := range r.Tests.Cases {
		limits = append(limits, c.Limits.Wall.String())
	}
	if got := strings.Join(limits, " "); got != "300ms 2s 300ms 300ms" {
		t.Errorf("the cases ran within %s", got)
	}
	if got := r.Tests.Cases[0]; got.Outcome != job.TimedOut {
		t.Errorf("the endless loop: %+v", got)
	}
}

// TestRestrictedChecker checks that a policy that restricts helpers limits a job's checker or interactor.
func TestRestrictedChecker(t *testing.T) {
	t.Parallel()
	for _, restricted := range []bool{true, false} {
		jobs := policy.Default()
		jobs.Memory, jobs.Wall, jobs.Processes, jobs.Disk = 32*job.MiB, job.Duration(time.Second), 3, job.MiB
		jobs.CPUTime = job.Duration(time.Second)
		jobs.Syscalls, jobs.Subprocesses, jobs.RestrictHelpers = "strict", false, restricted
		g := &grading{Config: Config{Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: jobs}}}}
		k := &checker{Checker: &job.Checker{Memory: job.GiB, Wall: job.Duration(time.Minute)}, program: &Built{Processes: 50, Solution: Solution{Argv: func(job.Size) []string { return []string{"true"} }}}}
		p := g.checkerPlan(k, &caseData{input: &Blob{Bytes: 10}, answer: &Blob{Bytes: 20}}, &Blob{Bytes: 30}).Policy
		held := p.Memory <= jobs.Memory && p.Wall <= jobs.Wall && p.CPUTime <= jobs.CPUTime && p.Processes <= 3 && p.Disk == jobs.Disk+60 &&
			!p.Subprocesses && p.Syscalls == "strict"
		if held != restricted {
			t.Errorf("restricted %v: %+v", restricted, p)
		}
		talk := &interaction{grading: g, k: k}
		d := &caseData{input: &Blob{Bytes: 10}, answer: &Blob{Bytes: 20}}
		if p := talk.interactorAttempt(d, job.CaseLimits{Wall: job.Duration(time.Second)}).Plan.Policy; (p.CPUTime <= jobs.CPUTime && p.Memory <= jobs.Memory) != restricted {
			t.Errorf("an interactor, restricted %v: %+v", restricted, p)
		}
	}
}

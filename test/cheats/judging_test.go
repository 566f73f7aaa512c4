package cheats

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// fair is a checker that accepts only the answer. Its message has a word that no candidate can
// know.
const fair = `
import os, sys
want, got = open(sys.argv[2], "rb").read().split(), sys.stdin.buffer.read().split()
assert open(sys.argv[1], "rb").read() == b"question"
assert sorted(os.listdir("/case")) == ["answer", "input"] and os.listdir(sys.argv[3]) == ["judgemessage.txt"], os.listdir("/case")
assert sorted(os.listdir("/workspace")) == ["feedback", "main.py"] and os.listdir("/tmp") == [], os.listdir("/workspace") + os.listdir("/tmp")
for path in "/case/answer", "/case/input":
    try:
        open(path, "w")
    except OSError:
        continue
    sys.exit(1)
if got != want:
    open(sys.argv[3] + "/judgemessage.txt", "wb").write(b"not %r" % b" ".join(got)[:100000])
sys.exit(42 if got == want else 43)
`

// candidates are programs that try to get a checker's or an interactor's acceptance without the
// answer, a number of 18 digits.
var candidates = map[string]string{
	"exits with 42":            "import os\nos._exit(42)",
	"exits with 43":            "import os\nos._exit(43)",
	"exits with 0":             "import os\nos._exit(0)",
	"says accepted":            "print('42')\nprint('accepted')",
	"kills itself":             "import os\nos.kill(os.getpid(), 9)",
	"huge":                     "import sys\nsys.stdout.write('9' * (10 << 20))",
	"huge, in words":           "import sys\nsys.stdout.write('9 ' * (5 << 20))",
	"larger than is checked":   "import sys\nsys.stdout.write('9' * (20 << 20))",
	"binary":                   "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)",
	"markup":                   "print('<script>alert(1)</script>\\x1b[2J\\x1b]0;x\\x07\\u202e{{7*7}}${HOME}`id`')",
	"paths":                    "print('/case/answer')\nprint('../case/answer')\nprint('@/case/answer')\nprint('$(cat /case/answer)')",
	"reads the answer":         reader + "print(found or 'nothing')",
	"reads the checker":        strings.Replace(reader, "[0-9]{18}", "judgemessage[^\"]", 1) + "print(found or 'nothing')",
	"leaves files":             leaver + "print('nothing')",
	"leaves a directory":       "import os\nos.makedirs('/tmp/case', exist_ok=True)\ntry: os.makedirs('/workspace/feedback'); open('/workspace/feedback/score.txt', 'w').write('1')\nexcept OSError: pass\nprint('nothing')",
	"leaves a process":         "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        " + "try: open('/workspace/feedback/judgemessage.txt', 'w').write('x')\n        except OSError: time.sleep(0.001)\nprint('nothing')",
	"a traceback as an excuse": "import sys\nprint('Traceback (most recent call last):')\nsys.stderr.write('Traceback (most recent call last):\\n')",
	"a line without end":       "import os\nwhile True: os.write(1, b'9' * 65536)",
	"closes and stays":         "import os, time\nos.closerange(0, 256)\ntime.sleep(100)",
	"closes and ends":          "import os\nos.closerange(0, 256)\nos._exit(0)",
	"stops itself":             "import os, signal\nprint('nothing', flush=True)\nwhile True: os.kill(os.getpid(), signal.SIGSTOP)",
	"does not read":            "import time\nprint('nothing', flush=True)\ntime.sleep(100)",
	"changes the pipes":        "import os, fcntl\nfor fd in 0, 1:\n    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)\n    try: fcntl.fcntl(fd, 1031, 1 << 20)\n    except OSError: pass\nprint('nothing')",
	"the pipes' other ends":    "import os\nfor fd in 0, 1:\n    try:\n        other = os.open('/proc/self/fd/%d' % fd, os.O_RDWR | os.O_NONBLOCK)\n        os.write(other, b'42\\n')\n        print(os.read(other, 1 << 16).decode(), end='')\n    except OSError: pass\nprint('nothing')",
	"writes to all":            "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'42')\n    except OSError: pass\nprint('nothing')",
	"ptrace and proc":          "import glob\nfor p in glob.glob('/proc/[0-9]*/mem') + glob.glob('/proc/[0-9]*/fd/*'):\n    try: open(p, 'r+b').write(b'42')\n    except (OSError, ValueError): pass\nprint('nothing')",
}

// reader searches files for 18 digits.
const reader = `
import os, re
found = None
for top in "/case", "/workspace", "/tmp", "/run", "/dev/shm", "/proc/self", "/var", "/mnt":
    for dir, dirs, names in os.walk(top):
        for name in names:
            try:
                if os.path.isfile(os.path.join(dir, name)) and (m := re.search(rb"\\b[0-9]{18}\\b", open(os.path.join(dir, name), "rb").read(1 << 20))):
                    found = m.group().decode()
            except OSError:
                pass
`

// leaver leaves files in all places of a checker, with the names of a checker's files.
const leaver = `
import os
for dir in "/workspace", "/tmp", "/workspace/feedback", "/case", "/dev/shm":
    for name in "main.py", "score.txt", "sitecustomize.py", "usercustomize.py", "os.py", "judgemessage.txt", "answer":
        try:
            os.makedirs(dir, exist_ok=True)
            open(os.path.join(dir, name), "w").write("import os\\nos._exit(42)\\n")
        except OSError:
            pass
`

func secretNumber() string { return fmt.Sprint(rand.Int64N(9e17) + 1e17) }

// No output makes a checker accept a wrong answer, or fail so that there is an excuse.
func TestCheckersAreNotFooled(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		right := f.grade(t, judgedBy("answer = input()\nprint(answer)", &job.Tests{Checker: &job.Checker{Code: &job.Code{Language: "python", Source: strings.Replace(fair, `b"question"`, `open(sys.argv[2], "rb").read()`, 1)}}}, ""), limits)
		if right.Outcome != job.Succeeded {
			t.Fatalf("who knows the answer does not pass: %s %+v", right.Outcome, right.Tests)
		}
		for _, name := range part(t, f, slices.Sorted(maps.Keys(candidates))) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rep := f.grade(t, judgedBy(candidates[name], &job.Tests{Checker: &job.Checker{Code: &job.Code{Language: "python", Source: fair}, Memory: job.DefaultCheckerMemory}}, "question"), limits)
				c := rep.Tests.Cases[0]
				if rep.Outcome != job.Failed || c.Passed || c.Outcome == job.CheckError || rep.Tests.Score == nil || *rep.Tests.Score != 0 {
					t.Errorf("%s: %+v", rep.Outcome, c)
				}
				if len(c.Message) > 1000 || strings.ContainsAny(c.Message, "\x00\x1b\x07\u202e\n") {
					t.Errorf("its message is %q", c.Message)
				}
			})
		}
	})
}

// judgedBy returns tests with one case and a secret answer; without an input the answer is the
// input.
func judgedBy(code string, tests *job.Tests, input string) *job.Tests {
	answer := secretNumber()
	if input == "" {
		input = answer
	}
	tests.Code, tests.Stdio = code, []job.Stdio{{Stdin: input, Stdout: answer}}
	return tests
}

// asking is an interactor that accepts only the answer to its question.
const asking = `
import sys
want = open(sys.argv[2]).read()
print("question", flush=True)
sys.exit(42 if sys.stdin.buffer.readline(1 << 20).strip() == want.encode() else 43)
`

// The same holds for interactors.
func TestInteractorsAreNotFooled(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		grade := func(t *testing.T, code, interactor string) (job.Outcome, job.CaseResult) {
			rep := f.grade(t, judgedBy(code, &job.Tests{Interactor: &job.Checker{Code: &job.Code{Language: "python", Source: interactor}}}, "question"), limits)
			return rep.Outcome, rep.Tests.Cases[0]
		}
		if o, c := grade(t, "answer = input()\nprint(answer)", strings.Replace(asking, `"question"`, "want", 1)); o != job.Succeeded {
			t.Fatalf("who knows the answer does not pass: %s %+v", o, c)
		}
		for _, name := range part(t, f, slices.Sorted(maps.Keys(candidates))) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if o, c := grade(t, candidates[name], asking); o != job.Failed || c.Passed || c.Outcome == job.CheckError {
					t.Errorf("%s: %+v", o, c)
				}
			})
		}
	})
}

// A solution that breaks a checker which accepts the answer has a wrong output, and no excuse. A
// checker that accepts nothing has no verdict on any solution.
func TestCheckersThatBreak(t *testing.T) {
	brittle := map[string]string{
		"of odd bytes":    "import sys\nsys.stdin.buffer.read().decode('ascii')\nsys.exit(42)",
		"of size":         "import sys\nx = sys.stdin.buffer.read() * 100\nsys.exit(42 if len(x) < (1 << 20) else 42)",
		"of a child":      "import os, sys\nif b'\\xff' in sys.stdin.buffer.read(): os.kill(os.getpid(), 11)\nsys.exit(42)",
		"that never ends": "import sys\nif b'\\xff' in sys.stdin.buffer.read():\n    while True: pass\nsys.exit(42)",
	}
	odd := "import sys\nsys.stdout.buffer.write(b'\\xff' * (8 << 20))"
	eachIsolation(t, func(t *testing.T, f *fleet) {
		for _, name := range part(t, f, slices.Sorted(maps.Keys(brittle))) {
			source := brittle[name]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, c := range []struct {
					code, checker string
					want          job.Outcome
				}{
					{odd, source, job.Failed}, {"print(1)", source, job.Succeeded},
					{odd, strings.ReplaceAll(source, "42", "41"), job.CheckError}, {"print(1)", strings.ReplaceAll(source, "42", "41"), job.CheckError},
				} {
					code, want := c.code, c.want
					tests := judgedBy(code, &job.Tests{Checker: &job.Checker{Code: &job.Code{Language: "python", Source: c.checker}, Wall: job.Duration(2 * time.Second), Memory: 256 * job.MiB}}, "question")
					rep := f.grade(t, tests, limits)
					if rep.Outcome != want || (rep.Tests.Score == nil) != (want == job.CheckError) || rep.Tests.Cases[0].Passed != (want == job.Succeeded) {
						t.Errorf("%q: %s %+v, want %s", code, rep.Outcome, rep.Tests, want)
					}
				}
			})
		}
	})
}

// A checker has its own limits: those of the solution and its imports do not apply to it.
func TestCheckersHaveTheirOwnLimits(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		const slow = "import sys, time, subprocess\nx = bytes(100 << 20)\ntime.sleep(2.5)\nsubprocess.run(['true'], check=True)\nsys.exit(42)"
		tests := judgedBy("print(1)", &job.Tests{Checker: &job.Checker{Code: &job.Code{Language: "python", Source: slow}, Wall: job.Duration(20 * time.Second), Memory: 256 * job.MiB}}, "question")
		tests.Stdio = append(tests.Stdio, job.Stdio{})
		rep := f.grade(t, tests, func(p *policy.Policy) {
			p.Wall, p.Memory, p.CPUTime, p.Processes, p.Subprocesses = job.Duration(2*time.Second), 64*job.MiB, job.Duration(2*time.Second), 1, false
		})
		if rep.Outcome != job.Succeeded || rep.Tests.Passed != 2 {
			t.Errorf("%s %+v", rep.Outcome, rep.Tests)
		}
	})
}

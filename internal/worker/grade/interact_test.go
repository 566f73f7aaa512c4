package grade

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// guessing is an interactor. The program must find the number in the answer by questions, which it answers with
// "higher" and "lower".
const guessing = `
import sys
secret = int(open(sys.argv[2]).read())
for _ in range(20):
    line = sys.stdin.readline()
    if not line:
        sys.exit(43)
    try:
        guess = int(line)
    except ValueError:
        open(sys.argv[3] + "/judgemessage.txt", "w").write("that is no number")
        sys.exit(43)
    if guess == secret:
        print("right", flush=True)
        sys.exit(42)
    print("higher" if guess < secret else "lower", flush=True)
open(sys.argv[3] + "/judgemessage.txt", "w").write("too many questions")
sys.exit(43)
`

const bisect = `
low, high = 1, 1000
while True:
    guess = (low + high) // 2
    print(guess, flush=True)
    said = input()
    if said == "right":
        break
    if said == "higher":
        low = guess + 1
    else:
        high = guess - 1
`

func TestInteractors(t *testing.T) {
	t.Parallel()
	accepts := "import sys\nsys.exit(42)"
	for name, c := range map[string]struct {
		code, interactor string
		want             job.Outcome
		says             string
	}{
		"right":                   {bisect, guessing, job.Succeeded, ""},
		"too many questions":      {"while True: print(1001, flush=True)", guessing, job.Failed, "wrong answer: too many questions"},
		"no number":               {"print('x')", guessing, job.Failed, "wrong answer: that is no number"},
		"ends early":              {"print(1)", guessing, job.Failed, "wrong answer"},
		"says nothing":            {"pass", guessing, job.Failed, "wrong answer"},
		"is silent":               {"input()", guessing, job.TimedOut, ""},
		"dies":                    {"print(1, flush=True)\ninput()\n1/0", guessing, job.Failed, "ZeroDivisionError"},
		"exits with 42":           {"import sys\nsys.exit(42)", guessing, job.Failed, "exit code 42"},
		"dies when accepted":      {bisect + "1/0", guessing, job.Failed, "ZeroDivisionError"},
		"hangs when accepted":     {bisect + "while True: pass", guessing, job.TimedOut, ""},
		"reads when it is over":   {"import sys\nsys.stdin.read()", accepts, job.Succeeded, ""},
		"writes when it is over":  {"import sys\nsys.stdin.read()\nfor _ in range(100000): print('x')", accepts, job.Succeeded, ""},
		"flood":                   {"import os\nwhile True: os.write(1, b'x' * 65536)", "import sys\nwhile sys.stdin.buffer.read(65536): pass\nsys.exit(42)", job.OutputLimit, "it wrote more than 16Mi"},
		"flood that nobody reads": {"import os\nwhile True: os.write(1, b'x' * 65536)", "import time\ntime.sleep(100)", job.TimedOut, ""},
		"the interactor crashes":  {"input()", "1/0", job.CheckError, "the interactor ended with exit code 1"},
		"it crashes, late":        {"print(1)\ninput()", "input()\n1/0", job.CheckError, "the interactor ended with exit code 1"},
		"it crashes at the end":   {"print(1)", "import sys\nsys.stdin.read()\n1/0", job.CheckError, "the interactor ended with exit code 1"},
		"it is not there":         {"input()", "pass", job.CheckError, "exit code 0"},
		"dies before it crashes":  {"1/0", "input()", job.Failed, "ZeroDivisionError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, got := firstCase(t, &job.Tests{Code: c.code, Interactor: &job.Checker{Code: python3(c.interactor), Wall: job.Duration(time.Minute)}, Stdio: []job.Stdio{{Stdout: "617", Wall: job.Duration(3 * time.Second)}}},
				func(p *policy.Policy) { p.Wall = job.Duration(time.Minute) })
			if got.Outcome != c.want || got.Passed != (c.want == job.Succeeded) || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v", got)
			}
			if (r.Tests.Score == nil) != (c.want == job.CheckError) {
				t.Errorf("score %v", r.Tests.Score)
			}
		})
	}
}

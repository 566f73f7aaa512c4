package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// The problem of these tests: print two whole numbers above 0 whose sum is the input. There are
// many right outputs.
var (
	splits = map[string]string{
		"right":       "n = int(input())\nprint(n - 1, 1)",
		"wrong":       "n = int(input())\nprint(n, 1)",
		"zero":        "n = int(input())\nprint(n, 0)",
		"says a word": "print('none')",
		"says less":   "print(1)",
		"says more":   "n = int(input())\nprint(n - 1, 1, 0)",
		"says a lot":  "print('1 ' * (7 << 20))",
		"odd bytes":   "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 4096)",
		"crashes":     "n = int(input())\nprint(n - 1, 1, flush=True)\n1 / 0",
		"dies":        "import os\nn = int(input())\nprint(n - 1, 1, flush=True)\nos.kill(os.getpid(), 9)",
		"hangs":       "n = int(input())\nprint(n - 1, 1, flush=True)\nwhile True: pass",
	}
	splitsCpp = map[string]string{
		"right":   "#include <cstdio>\nint main() { int n; scanf(\"%d\", &n); printf(\"%d 1\\n\", n - 1); }",
		"wrong":   "#include <cstdio>\nint main() { int n; scanf(\"%d\", &n); printf(\"%d 1\\n\", n); }",
		"crashes": "#include <cstdio>\n#include <cstdlib>\nint main() { puts(\"9 1\"); fflush(stdout); abort(); }",
	}
)

// teller replaces a library of checkers, with the usual exit codes and messages.
const teller = `#pragma once
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
enum Verdict { OK = 0, WRONG = 1, FORMAT = 2, FAIL = 3, POINTS = 7 };
inline void tell(Verdict v, const std::string &why) {
	const char *name[] = {"ok", "wrong answer", "wrong output format", "FAIL", "", "", "", "points"};
	fprintf(stderr, "%s %s\n", name[v], why.c_str());
	exit(v);
}
inline long number(std::ifstream &in, Verdict otherwise, const char *what) {
	std::string word;
	char *end = nullptr;
	if (!(in >> word)) tell(otherwise, std::string(what) + " is missing");
	long n = strtol(word.c_str(), &end, 10);
	if (*end || word.size() > 9) tell(otherwise, std::string(what) + " is no number");
	return n;
}
`

const testlibChecker = `#include "teller.h"
int main(int, char **argv) {
	std::ifstream in(argv[1]), out(argv[2]), answer(argv[3]);
	long n = number(in, FAIL, "n");
	if (number(answer, FAIL, "the answer") + number(answer, FAIL, "the answer") != n) tell(FAIL, "the answer is wrong");
	long a = number(out, FORMAT, "the first"), b = number(out, FORMAT, "the second");
	std::string more;
	if (out >> more) tell(FORMAT, "there is more");
	if (a + b != n) tell(WRONG, "the sum is " + std::to_string(a + b));
	if (a < 1 || b < 1) tell(POINTS, "0.25 not above 0");
	tell(OK, "two numbers");
}
`

const kattisChecker = `#include <fstream>
#include <iostream>
#include <string>
int main(int argc, char **argv) {
	std::ifstream in(argv[1]);
	std::ofstream message(std::string(argv[3]) + "/judgemessage.txt");
	long n = 0, a = 0, b = 0;
	std::string more;
	in >> n;
	if (!(std::cin >> a >> b) || std::cin >> more) { message << "not two numbers"; return 43; }
	if (a + b != n) { message << "the sum is " << a + b; return 43; }
	if (a < 1 || b < 1) { std::ofstream(std::string(argv[3]) + "/score.txt") << 0.25; return 42; }
	return 42;
}
`

const pythonChecker = `
import os, sys
n = int(open(sys.argv[1]).read())
def say(text):
    with open(os.path.join(sys.argv[3], "judgemessage.txt"), "w") as f: f.write(text)
    sys.exit(43)
words = sys.stdin.buffer.read(1 << 20).split()
if len(words) != 2 or not all(w.isdigit() for w in words): say("not two numbers")
a, b = map(int, words)
if a + b != n: say("the sum is %d" % (a + b))
if a < 1 or b < 1:
    with open(os.path.join(sys.argv[3], "score.txt"), "w") as f: f.write("0.25")
sys.exit(42)
`

// judged returns the result of a solution. Its tests have the rest.
func judged(t *testing.T, f *fleet, language, code string, tests job.Tests) *job.Result {
	t.Helper()
	tests.Language, tests.Code = language, code
	raw, err := json.Marshal(limits{"wall": "2m", "cpu_time": "2m", "memory": "256Mi"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.api.Run(t.Context(), job.Spec{Program: job.Program{Tests: &tests}, Policy: raw})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantCase compares the first case of a result with an outcome and a score.
func wantCase(t *testing.T, r *job.Result, want job.Outcome, score float64, says string) {
	t.Helper()
	whole := job.Failed
	if want == job.Succeeded || want == job.CheckError {
		whole = want
	}
	if r.Tests == nil || len(r.Tests.Cases) == 0 {
		t.Fatalf("%s: %s, %+v", r.Outcome, r.Message, r.Tests)
	}
	c := r.Tests.Cases[0]
	if r.Outcome != whole || c.Outcome != want || c.Passed != (want == job.Succeeded) || !strings.Contains(c.Message, says) {
		t.Errorf("%s, want %s %q: %+v", r.Outcome, want, says, c)
	}
	if got := r.Tests.Score; (got == nil) != (want == job.CheckError) || got != nil && *got != score {
		t.Errorf("score %v, want %g", got, score)
	}
}

func cpp(files ...string) *job.Code {
	c := &job.Code{Language: "cpp", Files: map[string]string{}}
	for i := 0; i < len(files); i += 2 {
		c.Files[files[i]] = files[i+1]
	}
	return c
}

func py(source string) *job.Code { return &job.Code{Language: "python", Source: source} }

var oneSplit = []job.Stdio{{Stdin: "10\n", Stdout: "5 5\n", Wall: job.Duration(5 * time.Second)}}

// Checkers and interactors judge programs of any language. Their own failure is no verdict.
func TestJudging(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, tell := range map[string]func(*testing.T, *fleet){
		"checkers": checkersOfLanguages, "broken checkers": brokenCheckers, "fragile checkers": fragileCheckers, "interactors": interactors,
		"comparisons": comparisons, "long lines": longLines, "limits by language": limitsByLanguage, "stop": stopOnFailure,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(t, f)
		})
	}
}

// Checkers in C++ and python, by both protocols, with solutions that are right, wrong or do not
// end.
func checkersOfLanguages(t *testing.T, f *fleet) {
	sum := map[string]string{"wrong": "the sum is 11", "says a word": "o", "says less": "", "says more": "", "says a lot": "", "odd bytes": "", "crashes": "ZeroDivisionError"}
	for name, checker := range map[string]*job.Checker{
		"testlib, C++":   {Protocol: job.Testlib, Code: cpp("main.cpp", testlibChecker, "teller.h", teller)},
		"kattis, C++":    {Protocol: job.Kattis, Code: cpp("main.cpp", kattisChecker)},
		"kattis, python": {Code: py(pythonChecker)},
	} {
		for of, code := range splits {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				want, score := job.Failed, 0.0
				switch of {
				case "right":
					want, score = job.Succeeded, 1
				case "zero":
					score = 0.25
				case "hangs":
					want = job.TimedOut
				case "dies":
					want = job.Signaled
				}
				wantCase(t, judged(t, f, "", code, job.Tests{Checker: checker, Stdio: oneSplit}), want, score, sum[of])
			})
		}
		for of, code := range splitsCpp {
			t.Run(name+", C++, "+of, func(t *testing.T) {
				t.Parallel()
				want, score := map[string]job.Outcome{"right": job.Succeeded, "wrong": job.Failed, "crashes": job.Signaled}[of], 0.0
				if want == job.Succeeded {
					score = 1
				}
				wantCase(t, judged(t, f, "cpp", code, job.Tests{Checker: checker, Stdio: oneSplit}), want, score, "")
			})
		}
	}
}

// A broken checker has no verdict, neither pass nor failure, on right and wrong solutions.
func brokenCheckers(t *testing.T, f *fleet) {
	const head = "#include <cstdlib>\n#include <cstring>\n#include <vector>\n"
	for name, c := range map[string]struct {
		source, says string
	}{
		"crashes":      {head + "int main() { abort(); }", "did not come to a verdict"},
		"segfault":     {head + "int main() { *(volatile int *)8 = 1; }", "did not come to a verdict"},
		"throws":       {head + "int main() { throw 1; }", "did not come to a verdict"},
		"hangs":        {head + "int main() { for (volatile int i = 0;; i = i + 1) ; }", "did not come to a verdict"},
		"sleeps":       {"#include <unistd.h>\nint main() { for (;;) pause(); }", "did not come to a verdict"},
		"all memory":   {head + "int main() { for (;;) { void *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); } }", "did not come to a verdict"},
		"forks":        {"#include <unistd.h>\nint main() { for (;;) fork(); }", ""},
		"ends with 0":  {"int main() {}", "neither 42 nor 43"},
		"no compiling": {"int main() { return accept; }", "the checker cannot be started"},
	} {
		for of, code := range map[string]string{"right": splits["right"], "wrong": splits["wrong"]} {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				checker := &job.Checker{Code: cpp("main.cpp", c.source), Wall: job.Duration(2 * time.Second), Memory: 128 * job.MiB}
				wantCase(t, judged(t, f, "", code, job.Tests{Checker: checker, Stdio: oneSplit}), job.CheckError, 0, c.says)
			})
		}
	}
}

// An output breaks a careless checker, which accepts the answer. This does not avoid a verdict.
func fragileCheckers(t *testing.T, f *fleet) {
	const head = "#include <cstdlib>\n#include <cstring>\n#include <fstream>\n#include <iostream>\n#include <stdexcept>\n#include <string>\n#include <vector>\n" +
		"int main(int, char **argv) {\n\tlong n, a, b; std::ifstream(argv[1]) >> n; std::string x, y; std::cin >> x >> y;\n"
	const tail = "\treturn a + b == n ? 42 : 43;\n}\n"
	for name, c := range map[string]struct{ source, code string }{
		"throws":     {head + "a = std::stol(x); b = std::stol(y);\n" + tail, "print('none')"},
		"all memory": {head + "a = atol(x.c_str()); b = atol(y.c_str()); std::vector<char> seen(a, 1); std::vector<char> also(seen);\n" + tail, "print(10 ** 9, 1)"},
		"no end":     {head + "a = atol(x.c_str()); b = atol(y.c_str()); for (volatile long i = 0; i != a; i = i + 1) ;\n" + tail, "print(-1, 1)"},
		"segfault":   {head + "a = atol(x.c_str()); b = atol(y.c_str()); static volatile int seen[100]; if (a) seen[a] = 1;\n" + tail, "print(10 ** 12, 1)"},
	} {
		for _, of := range []string{"right", "wrong", name} {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				want, score, says, code := job.Failed, 0.0, "given the answer in place of this output, it accepts", c.code
				switch of {
				case "right":
					want, score, says, code = job.Succeeded, 1, "", splits[of]
				case "wrong":
					says, code = "wrong answer", splits[of]
				}
				checker := &job.Checker{Code: cpp("main.cpp", c.source), Wall: job.Duration(2 * time.Second), Memory: 128 * job.MiB}
				wantCase(t, judged(t, f, "", code, job.Tests{Checker: checker, Stdio: oneSplit}), want, score, says)
			})
		}
	}
}

const guessingPy = `
import os, sys
secret = int(open(sys.argv[2]).read())
def wrong(text):
    with open(os.path.join(sys.argv[3], "judgemessage.txt"), "w") as f: f.write(text)
    sys.exit(43)
for _ in range(20):
    try: guess = int(sys.stdin.readline())
    except ValueError: wrong("that is no number")
    if guess == secret:
        print("right", flush=True)
        sys.exit(42)
    print("higher" if guess < secret else "lower", flush=True)
wrong("too many questions")
`

const guessingCpp = `#include <fstream>
#include <iostream>
#include <string>
int main(int, char **argv) {
	long secret, guess;
	std::ifstream(argv[2]) >> secret;
	std::ofstream message(std::string(argv[3]) + "/judgemessage.txt");
	for (int i = 0; i < 20; i++) {
		if (!(std::cin >> guess)) { message << "that is no number"; return 43; }
		std::cout << (guess == secret ? "right" : guess < secret ? "higher" : "lower") << std::endl;
		if (guess == secret) return 42;
	}
	message << "too many questions";
	return 43;
}
`

const bisectPy = "low, high = 1, 1000\nwhile True:\n    guess = (low + high) // 2\n    print(guess, flush=True)\n    said = input()\n    if said == 'right': break\n" +
	"    if said == 'higher': low = guess + 1\n    else: high = guess - 1\n"

const bisectCpp = `#include <iostream>
#include <string>
int main() {
	for (long low = 1, high = 1000;;) {
		long guess = (low + high) / 2;
		std::string said;
		std::cout << guess << std::endl;
		if (!(std::cin >> said)) return 1;
		if (said == "right") return 0;
		if (said == "higher") low = guess + 1; else high = guess - 1;
	}
}
`

// The same for interactors.
func interactors(t *testing.T, f *fleet) {
	for name, interactor := range map[string]*job.Code{"python": py(guessingPy), "C++": cpp("main.cpp", guessingCpp)} {
		for of, c := range map[string]struct {
			language, code string
			want           job.Outcome
			says           string
		}{
			"right, python":       {"", bisectPy, job.Succeeded, ""},
			"right, C++":          {"cpp", bisectCpp, job.Succeeded, ""},
			"too many questions":  {"", "while True:\n    print(1001, flush=True)\n    input()", job.Failed, "too many questions"},
			"no number":           {"", "print('x', flush=True)\ninput()", job.Failed, "that is no number"},
			"crashes, python":     {"", "print(1, flush=True)\ninput()\n1 / 0", job.Failed, "ZeroDivisionError"},
			"crashes, C++":        {"cpp", "#include <cstdlib>\nint main() { abort(); }", job.Signaled, ""},
			"crashes when it won": {"", bisectPy + "1 / 0", job.Failed, "ZeroDivisionError"},
			"silent":              {"", "input()", job.TimedOut, ""},
		} {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				score := 0.0
				if c.want == job.Succeeded {
					score = 1
				}
				tests := job.Tests{Interactor: &job.Checker{Code: interactor}, Stdio: []job.Stdio{{Stdout: "617", Wall: job.Duration(3 * time.Second)}}}
				wantCase(t, judged(t, f, c.language, c.code, tests), c.want, score, c.says)
			})
		}
	}
	for name, source := range map[string]string{
		"crashes": "int main() { __builtin_trap(); }", "does not compile": "int main() { x }",
		"all memory": "#include <cstdlib>\n#include <cstring>\nint main() { for (;;) { void *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); } }",
	} {
		t.Run("the interactor "+name, func(t *testing.T) {
			t.Parallel()
			tests := job.Tests{Interactor: &job.Checker{Code: cpp("main.cpp", source), Memory: 128 * job.MiB}, Stdio: []job.Stdio{{Stdout: "617", Wall: job.Duration(20 * time.Second)}}}
			wantCase(t, judged(t, f, "", bisectPy, tests), job.CheckError, 0, "the interactor ")
		})
	}
}

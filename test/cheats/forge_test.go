package cheats

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// answers are what solve(1), solve(2), … should return: nobody can guess them.
func answers(t *testing.T) (tokens []string) {
	t.Helper()
	for range 9 {
		b := make([]byte, 16)
		if _, err := rand.Read(b); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, hex.EncodeToString(b))
	}
	return tokens
}

// check asserts in every way that people do. T is the list of tokens.
const check = `
import math, unittest
NUMBERS = [int(t[:12], 16) / 7 for t in T]

def check(candidate):
    assert candidate(1) == T[1]
    assert candidate(2) == T[2]

def test_equal_reflected(candidate):
    assert T[1] == candidate(1)

def test_not_unequal(candidate):
    assert not candidate(1) != T[1]

def test_float(candidate):
    assert abs(float_of(candidate(3)) - NUMBERS[3]) < 1e-6

def float_of(v):
    return v if not isinstance(v, str) else int(v[:12], 16) / 7

def test_close(candidate):
    assert math.isclose(float_of(candidate(3)), NUMBERS[3])

def test_in(candidate):
    assert candidate(4) in (T[4], T[4].upper())

def test_holds(candidate):
    assert T[4][3:20] in candidate(4)

def test_items(candidate):
    assert [candidate(5)[i] for i in range(32)] == list(T[5])

def test_sorted(candidate):
    assert sorted(candidate(6)) == sorted(T[6])

def test_all(candidate):
    assert all(candidate(i) == T[i] for i in range(1, 8))

def test_map(candidate):
    assert all(map(lambda i: candidate(i) == T[i], range(1, 8)))

def test_any(candidate):
    for i in map(candidate, range(1, 8)):
        if i in T:
            break
    else:
        raise AssertionError("none")

def test_set(candidate):
    assert {candidate(1), candidate(2)} == {T[1], T[2]}

def test_dict(candidate):
    assert {T[1]: 1}[candidate(1)] == 1

def test_type_and_value(candidate):
    r = candidate(7)
    assert isinstance(r, str) and r == T[7] and len(r) == 32

def test_no_exception(candidate):
    try:
        r = candidate(7)
    except Exception:
        r = None
    assert r == T[7]

class TestSolve(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(solve(1), T[1])

    def test_almost(self):
        self.assertAlmostEqual(float_of(solve(3)), NUMBERS[3])

    def test_in(self):
        self.assertIn(T[4][3:20], solve(4))

    def test_items(self):
        self.assertCountEqual(list(solve(6)), list(T[6]))
`

// problem is what every attempt is graded by: in all three ways.
func problem(t *testing.T, code string) (tests *job.Tests, tokens []string) {
	t.Helper()
	tokens = answers(t)
	list, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	tests = &job.Tests{Code: code, Function: "solve", Check: "T = " + string(list) + check}
	for i := 1; i <= 3; i++ {
		want, err := json.Marshal(tokens[i])
		if err != nil {
			t.Fatal(err)
		}
		tests.Cases = append(tests.Cases, job.Case{Args: []json.RawMessage{fmt.Append(nil, i)}, Expected: want})
	}
	tests.Stdio = []job.Stdio{{Stdin: "1\n", Stdout: tokens[1] + "\n"}}
	return tests, tokens
}

func limits(p *policy.Policy) {
	p.Wall = job.Duration(3 * time.Second)
	p.Memory = 128 * job.MiB
}

func TestNoPassCanBeForged(t *testing.T) {
	files, err := filepath.Glob("attempts/*.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 60 {
		t.Fatalf("there are %d attempts, and should be 60 at least", len(files))
	}
	eachIsolation(t, func(t *testing.T, f *fleet) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".py"), func(t *testing.T) {
				t.Parallel() // many of them only wait
				code, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				tests, _ := problem(t, string(code))
				rep := f.grade(t, tests, limits)
				if rep.Tests.Passed != 0 || rep.Tests.Score != 0 || rep.Outcome == job.Succeeded {
					t.Errorf("%s, score %v: forged\n%+v", rep.Outcome, rep.Tests.Score, rep.Tests.Cases)
				}
				for _, c := range rep.Tests.Cases {
					if c.Message == "" {
						t.Errorf("%s failed without a word: %+v", c.Name, c)
					}
				}
			})
		}
	})
}

// The problem can be solved, by who knows the answers.
func TestHonestSolutionsPass(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		tests, tokens := problem(t, "")
		tests.Code = fmt.Sprintf("T = %q.split()\ndef solve(x):\n    return T[x]\nif __name__ == '__main__':\n    print(solve(int(input())))\n", strings.Join(tokens, " "))
		rep := f.grade(t, tests, func(p *policy.Policy) {
			limits(p)
			p.Wall = job.Duration(time.Minute) // however slow the host
		})
		if rep.Outcome != job.Succeeded || rep.Tests.Score != 1 || rep.Tests.Total < 20 {
			t.Errorf("%s, score %v of %d: %q", rep.Outcome, rep.Tests.Score, rep.Tests.Total, rep.Feedback)
		}
	})
}

// Where a solution may not start processes, cases run in one, and the next in
// line still gets a fresh sandbox if that breaks.
func TestCasesWithoutProcesses(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		tests := &job.Tests{Function: "f", Code: `
import os, time
def f(x):
    if x == "exit": os._exit(0)
    if x == "hang": time.sleep(1000)
    if x == "memory": return len(bytearray(1 << 30))
    if x == "fork":
        try: return os.fork()
        except OSError: return -1
    return x
`}
		for _, c := range []struct{ arg, want string }{
			{"1", "1"}, {`"exit"`, "1"}, {"2", "2"}, {`"hang"`, "1"}, {"3", "3"}, {`"memory"`, "1"}, {"4", "4"}, {`"fork"`, "-1"},
		} {
			tests.Cases = append(tests.Cases, job.Case{Args: []json.RawMessage{[]byte(c.arg)}, Expected: []byte(c.want), Wall: job.Duration(2 * time.Second)})
		}
		for _, forks := range []bool{true, false} {
			rep := f.grade(t, tests, func(p *policy.Policy) {
				p.Processes, p.Wall = map[bool]int{true: 64, false: 1}[forks], job.Duration(time.Minute)
			})
			var outcomes []string
			for _, c := range rep.Tests.Cases {
				outcomes = append(outcomes, string(c.Outcome))
			}
			want := "succeeded failed succeeded timed_out succeeded out_of_memory succeeded "
			want += map[bool]string{true: "failed", false: "succeeded"}[forks]
			if got := strings.Join(outcomes, " "); got != want {
				t.Errorf("processes %v: %s\nwant %s\n%q", forks, got, want, rep.Feedback)
			}
		}
	})
}

// A variable that an interpreter reads when it starts takes a fresh one, which
// grades as well.
func TestFreshInterpretersGrade(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		rep := f.grade(t, &job.Tests{Code: "def f(x): return x + 1", Function: "f",
			Cases: []job.Case{{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("2")}}},
			func(p *policy.Policy) { p.Env.Set = map[string]string{"PYTHONHASHSEED": "0"} })
		if rep.Outcome != job.Succeeded {
			t.Errorf("%s: %s %q", rep.Outcome, rep.Message, rep.Feedback)
		}
	})
}

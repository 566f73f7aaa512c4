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
	"github.com/assay-run/assay/pkg/runtime"
)

// answers returns the required results of solve(1), solve(2), …, which no solution can guess.
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

// problem returns the tests that grade an attempt: by function in all three ways, and by class with
// a check, for names that begin with class_. Each problem has a directory in problems: a setup, a
// check with all usual kinds of assertions, and a solution. T is the list of tokens in the latter
// two.
func problem(t *testing.T, name, code string) (tests *job.Tests, tokens []string) {
	t.Helper()
	dir, function := "problems/solve", "solve"
	if strings.HasPrefix(name, "class_") {
		dir, function = "problems/vault", "Vault"
	}
	read := func(file string) string {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tokens = answers(t)
	list, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	known := "T = " + string(list) + "\n"
	if code == "" {
		code = known + read("solution.py")
	}
	tests = &job.Tests{Code: code, Setup: read("setup.py"), Function: function, Check: known + read("check.py")}
	if function == "Vault" {
		return tests, tokens
	}
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

// endless has the attempts that only take all of their time, at each test anew: they get little.
var endless = map[string]bool{"hang": true, "hang_at_import": true, "patched_time": true, "infinite_generator": true,
	"infinite_liar_generator": true, "generator_of_generators": true, "shared_value": true}

func briefly(p *policy.Policy) {
	limits(p)
	p.Wall = job.Duration(time.Second)
}

func TestNoPassCanBeForged(t *testing.T) {
	files, err := filepath.Glob("attempts/*.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 190 {
		t.Fatalf("there are %d attempts, and should be 190 at least", len(files))
	}
	for name := range endless {
		if _, err := os.Stat(filepath.Join("attempts", name+".py")); err != nil {
			t.Error(err)
		}
	}
	eachIsolation(t, func(t *testing.T, f *fleet) {
		for _, file := range part(t, f, files) {
			name := strings.TrimSuffix(filepath.Base(file), ".py")
			t.Run(name, func(t *testing.T) {
				t.Parallel() // many of them only wait
				code, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				tests, _ := problem(t, name, string(code))
				allowed := limits
				if endless[name] {
					allowed = briefly
				}
				rep := f.grade(t, tests, allowed)
				for range 3 { // the attempt had not started yet
					if !late(rep) {
						break
					}
					rep = f.grade(t, tests, allowed)
				}
				if rep.Tests.Passed != 0 || rep.Tests.Score == nil || *rep.Tests.Score != 0 || rep.Outcome != job.Failed {
					t.Errorf("%s, %d passed: forged, or excused\n%+v", rep.Outcome, rep.Tests.Passed, rep.Tests.Cases)
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

// late reports whether a busy host had no time for more than the setup, in which no solution has a
// part.
func late(rep *runtime.Report) bool {
	return rep.Outcome == job.CheckError && rep.Tests.Errors == 1 &&
		strings.HasPrefix(rep.Tests.Cases[0].Message, "setup of the tests did not come to its end: it took too long")
}

// The problems can be solved with the answers.
func TestHonestSolutionsPass(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		for name, total := range map[string]int{"solve": 44, "class_vault": 18} {
			tests, _ := problem(t, name, "")
			rep := f.grade(t, tests, func(p *policy.Policy) {
				limits(p)
				p.Wall = job.Duration(time.Minute) // for slow hosts
			})
			if rep.Outcome != job.Succeeded || rep.Tests.Passed != total || rep.Tests.Total != total {
				t.Errorf("%s: %s, %d of %d passed: %q", name, rep.Outcome, rep.Tests.Passed, rep.Tests.Total, rep.Feedback)
			}
			for _, c := range rep.Tests.Cases {
				if c.SelfReported != (name == "class_vault") {
					t.Errorf("%s, %s: self_reported is %v", name, c.Name, c.SelfReported)
				}
			}
		}
	})
}

// If a solution may not start processes, cases run in one process. If that breaks, the next case
// still gets a fresh sandbox.
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
			wall := job.Duration(time.Minute) // for slow hosts
			if c.arg == `"hang"` {
				wall = job.Duration(2 * time.Second)
			}
			tests.Cases = append(tests.Cases, job.Case{Args: []json.RawMessage{[]byte(c.arg)}, Expected: []byte(c.want), Wall: wall})
		}
		for _, forks := range []bool{true, false} {
			rep := f.grade(t, tests, func(p *policy.Policy) {
				p.Processes, p.Wall = map[bool]int{true: 64, false: 1}[forks], job.Duration(10*time.Minute)
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

// A variable that an interpreter reads at its start needs a fresh interpreter, which grades as
// well.
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

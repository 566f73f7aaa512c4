package e2e

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// command returns a command of the command line, for the fleet.
func (f *fleet) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), filepath.Join(f.bin, "assay"), append([]string{"--url", f.URL()}, args...)...)
}

// written writes files beneath a new directory, and returns it.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "problem")
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed makes an archive of files.
func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "problem.zip")
	out, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(out)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

var sumsPackage = map[string]string{
	"problem.yaml":              "name: Sums\nlimits:\n  time_limit: 2\n  memory: 256\nvalidator_flags: float_tolerance 1e-6\n",
	"data/sample/1.in":          "2\n1 2\n",
	"data/sample/1.ans":         "3\n",
	"data/secret/2.in":          fmt.Sprintf("20000\n%s\n", strings.Repeat("1 ", 20000)), // large enough for an upload
	"data/secret/2.ans":         "20000.0000001\n",
	"submissions/accepted/a.py": "input()\nprint(sum(map(int, input().split())))\n", "submissions/wrong_answer/b.py": "input()\nprint(sum(map(int, input().split())) + 1)\n",
	"submissions/accepted/c.cpp":               "#include <iostream>\nint main() { long n, x, s = 0; std::cin >> n; while (std::cin >> x) s += x; std::cout << s << '\\n'; }\n",
	"submissions/time_limit_exceeded/d.py":     "while True: pass\n",
	"submissions/run_time_error/e.py":          "1 / 0\n",
	"submissions/wrong_answer/nothing/main.py": "pass\n",
}

var splitPackage = map[string]string{
	"problem.yaml": "name: Split\nvalidation: custom\nlimits: {time_limit: 3}\n", "data/secret/1.in": "10\n", "data/secret/1.ans": "5 5\n",
	"output_validators/split/validate.cpp": kattisChecker, "submissions/accepted/a.py": splits["right"], "submissions/accepted/a.cpp": splitsCpp["right"],
	"submissions/wrong_answer/b.py": splits["wrong"], "submissions/wrong_answer/c.py": splits["says a word"], "submissions/run_time_error/d.py": splits["crashes"],
}

var guessPackage = map[string]string{
	"problem.yaml": "name: {en: Guess}\nproblem_format_version: 2023-07-draft\ntype: interactive\nlimits: {time_limit: 3}\n", "data/secret/1.in": "\n", "data/secret/1.ans": "617\n", "data/secret/2.in": "\n", "data/secret/2.ans": "1\n",
	"output_validator/validate.py": guessingPy, "submissions/accepted/a.py": bisectPy, "submissions/accepted/a.cpp": bisectCpp,
	"submissions/wrong_answer/b.py": "for i in range(20):\n    print(1000 - i, flush=True)\n    input()\n", "submissions/run_time_error/d.py": "1 / 0",
}

// contestFile returns a file in the format of CodeContests.
func contestFile(t *testing.T) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"name": "1_A. Sums", "description": "Add them.", "time_limit": map[string]int{"seconds": 2, "nanos": 500000000}, "memory_limit_bytes": 256 << 20,
		"public_tests":    map[string]any{"input": []string{"1 2\n"}, "output": []string{"3\n"}},
		"private_tests":   map[string]any{"input": []string{"4 5\n", "-1 1\n"}, "output": []string{"9", "0 \n"}},
		"generated_tests": map[string]any{"input": []string{strings.Repeat("1 ", 10000)}, "output": []string{"10000\n"}},
		"solutions": map[string]any{"language": []int{3, 2, 1}, "solution": []string{"print(sum(map(int, input().split())))",
			"#include <iostream>\nint main() { long x, s = 0; while (std::cin >> x) s += x; std::cout << s; }", "print 1"}},
		"incorrect_solutions": map[string]any{"language": []int{3, 2}, "solution": []string{"print(3)", "int main() { return 1; }"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "problems.json")
	if err := os.WriteFile(at, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// The output of `assay eval import` for foreign problems grades right and wrong solutions as the
// problems specify.
func TestImportedProblems(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, c := range map[string]struct {
		at        string
		solutions int
	}{
		"a package": {written(t, sumsPackage), 6}, "packed": {packed(t, sumsPackage), 6}, "a validator": {written(t, splitPackage), 5}, "interactive": {written(t, guessPackage), 4},
		"CodeContests": {contestFile(t), 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, notes, err := f.assay(t, "eval", "import", "--solutions", c.at)
			if err != nil {
				t.Fatalf("%v: %s", err, notes)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != c.solutions {
				t.Fatalf("%d solutions, want %d: %s", len(lines), c.solutions, notes)
			}
			for _, line := range lines {
				var spec job.Spec
				if err := json.Unmarshal([]byte(line), &spec); err != nil {
					t.Fatal(err)
				}
				r, err := f.api.Run(t.Context(), spec)
				if err != nil {
					t.Errorf("%s: %v", spec.Name, err)
					continue
				}
				wantVerdict(t, spec, r)
			}
			f.importedTests(t, c.at, name)
		})
	}
	f.badProblems(t)
}

// wantVerdict compares a result with the solution's expected verdict in the package.
func wantVerdict(t *testing.T, spec job.Spec, r *job.Result) {
	t.Helper()
	expected := spec.Labels["expected"]
	right := r.Outcome == job.Succeeded && r.Tests.Score != nil && *r.Tests.Score == 1
	wrong := r.Outcome == job.Failed && r.Tests.Score != nil && *r.Tests.Score < 1
	if right != (expected == "accepted") || wrong == right {
		t.Errorf("%s is %s: %s, %s, %+v", spec.Name, expected, r.Outcome, r.Message, r.Tests)
	}
	if expected == "time_limit_exceeded" && wrong && r.Tests.Cases[0].Outcome != job.TimedOut {
		t.Errorf("%s: %+v", spec.Name, r.Tests.Cases[0])
	}
}

// importedTests runs a solution with the printed tests, as documented, with more time for its
// language.
func (f *fleet) importedTests(t *testing.T, at, name string) {
	t.Helper()
	out, notes, err := f.assay(t, "eval", "import", at)
	if err != nil {
		t.Fatalf("%v: %s", err, notes)
	}
	tests := decoded(t, out)
	tests.Limits = map[string]job.Multiplier{"python": {Wall: 2}}
	raw, err := json.Marshal(tests)
	if err != nil {
		t.Fatal(err)
	}
	sources := written(t, map[string]string{"problem.json": string(raw), "wrong.py": "print('no')"})
	out, notes, err = f.assay(t, "run", "--json", "--tests", filepath.Join(sources, "problem.json"), filepath.Join(sources, "wrong.py"))
	if err != nil || !strings.Contains(out, `"failed"`) || strings.Contains(out, "check_error") {
		t.Errorf("%s: %v: %s %s", name, err, out, notes)
	}
	if wall := tests.Stdio[0].Wall; !strings.Contains(out, (2 * wall).String()) {
		t.Errorf("%s: a case of %s does not have twice that: %s", name, wall, out)
	}
}

// badProblems are refused, without output.
func (f *fleet) badProblems(t *testing.T) {
	t.Helper()
	with := func(more ...string) map[string]string {
		files := map[string]string{}
		for name, text := range sumsPackage {
			files[name] = text
		}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	linked := written(t, sumsPackage)
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "data", "secret", "x.in")); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		packed(t, with("../../climbs.in", "x")): "is not a path below the package",
		linked:                                  "x.in",
		written(t, with("data/secret/x.in", "1")):                                             "has no answer",
		written(t, map[string]string{"problem.yaml": "name: x\n"}):                            "there are no cases",
		written(t, with("problem.yaml", "name: x\nlimits: {time_limit: 0}\n")):                "time_limit is 0 seconds",
		filepath.Join(written(t, map[string]string{"x.json": `{"name":"x"}`}), "x.json"):      "it has no tests",
		filepath.Join(written(t, map[string]string{"x.json": "PK\x03\x04 no zip"}), "x.json"): "zip",
	} {
		out, notes, err := f.assay(t, "eval", "import", at)
		if err == nil || out != "" || !strings.Contains(notes, want) {
			t.Errorf("%v: %q %q, want %q", err, out, notes, want)
		}
	}
}

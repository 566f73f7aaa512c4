package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	checker "github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/job"
)

// TestCheck checks programs without running them, with the python of the default image.
func TestCheck(t *testing.T) {
	t.Parallel()
	f := start(t)
	t.Run("what is seen", func(t *testing.T) { checkSees(t, f) })
	t.Run("it is not run", func(t *testing.T) { checkRunsNothing(t, f) })
	t.Run("hostile", func(t *testing.T) { checkHostile(t, f) })
	t.Run("a thousand", func(t *testing.T) { checkThousand(t, f) })
	t.Run("bad requests", func(t *testing.T) { checkBad(t, f) })
	t.Run("command line", func(t *testing.T) { checkCommand(t, f) })
	t.Run("every isolation", func(t *testing.T) { checkIsolations(t, f) })
	t.Run("large answers", func(t *testing.T) { checkLarge(t, f) })
}

func (f *fleet) check(t *testing.T, programs ...api.CheckProgram) []api.Checked {
	t.Helper()
	report, err := f.api.Check(t.Context(), api.CheckRequest{Programs: programs})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Programs) != len(programs) || report.Python == "" || report.Digest == "" || report.Job == "" {
		t.Fatalf("%d answers, python %q, image %q, job %q", len(report.Programs), report.Python, report.Digest, report.Job)
	}
	return report.Programs
}

func checkSees(t *testing.T, f *fleet) {
	deny := json.RawMessage(`{"imports":{"deny":["os"]},"packages":["some-package"]}`)
	got := f.check(t,
		api.CheckProgram{Name: "good", Code: "import json\n\ndef add(a, b: int = 2, *rest, c=3):\n    return a + b\n\nclass Stack(list):\n    def push(self, x): self.append(x)\n"},
		api.CheckProgram{Name: "broken", Code: "def f():\n    print('x'\n    return 1\n"},
		api.CheckProgram{Name: "forbidden", Code: "def f():\n    import os.path\n    import some_package\n", Policy: deny},
		api.CheckProgram{Name: "undefined", Code: "print(x, y)\n", Names: []string{"x"}},
		api.CheckProgram{Name: "missing", Code: "import no_such_module\n"},
		api.CheckProgram{Name: "outside", Code: "return 1"},
	)
	good := got[0]
	if !good.OK || good.Name != "good" || len(good.Functions) != 1 || good.Functions[0].Signature != "(a, b: int = 2, *rest, c=3)" || len(good.Classes) != 1 ||
		good.Classes[0].Methods[0].Name != "push" || len(good.Imports) != 1 || good.Imports[0].Found == nil || !*good.Imports[0].Found || len(good.Undefined) != 0 {
		t.Errorf("%+v", good)
	}
	if e := got[1].Error; got[1].OK || e == nil || e.Type != "SyntaxError" || e.Line != 2 || e.Message != "'(' was never closed" {
		t.Errorf("broken: %+v", e)
	}
	if i := got[2].Imports; got[2].OK || len(i) != 2 || !i[0].Forbidden || i[0].Line != 2 || i[1].Forbidden || i[1].Found != nil {
		t.Errorf("forbidden: %+v", got[2])
	}
	if u := got[3].Undefined; !got[3].OK || len(u) != 1 || u[0] != (api.CheckedName{Name: "y", Line: 1, Column: 10}) {
		t.Errorf("undefined: %+v", u)
	}
	if i := got[4].Imports; !got[4].OK || len(i) != 1 || i[0].Found == nil || *i[0].Found {
		t.Errorf("missing: %+v", i)
	}
	if e := got[5].Error; e == nil || e.Message != "'return' outside function" {
		t.Errorf("outside: %+v", e)
	}
	sameRules(t, f)
}

// sameRules compares the check with a job: a job refuses what the check reports as forbidden.
func sameRules(t *testing.T, f *fleet) {
	for _, c := range []struct{ policy, code string }{
		{`{"imports":{"deny":["os"]}}`, "import os.path"},
		{`{"imports":{"deny":["os.path"]}}`, "from os import path"},
		{`{"imports":{"deny":["os.path"]}}`, "from os import getcwd"},
		{`{"imports":{"allow":["math"]}}`, "import json"},
		{`{"imports":{"allow":["math"]}}`, "import math"},
		{`{"imports":{"deny":["csv"]}}`, "__import__('csv')"},
	} {
		forbidden := !f.check(t, api.CheckProgram{Code: c.code, Policy: json.RawMessage(c.policy)})[0].OK
		r, err := f.api.Run(t.Context(), job.Spec{Program: python(c.code), Policy: json.RawMessage(c.policy)})
		if err != nil {
			t.Fatal(err)
		}
		if refused := r.Outcome == job.PolicyViolation; refused != forbidden {
			t.Errorf("%s under %s: the job is %s (%s), the check says forbidden %t", c.code, c.policy, r.Outcome, r.Message, forbidden)
		}
	}
}

func checkRunsNothing(t *testing.T, f *fleet) {
	start := time.Now()
	got := f.check(t, api.CheckProgram{Code: "import time\ntime.sleep(1000)\n"}, api.CheckProgram{Code: "import os\nos._exit(3)"},
		api.CheckProgram{Code: "import sys\nprint('{}')\nsys.stdout.close()\n"}, api.CheckProgram{Code: "x = 1 / 0"})
	for i, c := range got {
		if !c.OK || c.Error != nil {
			t.Errorf("%d: %+v", i, c)
		}
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// checkHostile sends programs that make a parser crash, run long or use memory, between correct
// ones.
func checkHostile(t *testing.T, f *fleet) {
	hostile := map[string]string{
		"parentheses": strings.Repeat("(", 100_000),
		"balanced":    strings.Repeat("(", 100_000) + strings.Repeat(")", 100_000),
		"minus":       strings.Repeat("-", 1_000_000) + "1",
		"attributes":  "a" + strings.Repeat(".a", 300_000),
		"lambdas":     strings.Repeat("lambda:", 100_000) + "1",
		"indents":     indented(200),
		"statements":  strings.Repeat("a;", 500_000),
		"NUL":         "x = 1\x00",
		"number":      "x = " + strings.Repeat("9", 900_000),
		"line":        "'" + strings.Repeat("x", 1_000_000),
		"strings":     strings.Repeat("f'{", 1000),
		"power":       "x = 9**9**9**9",
		"dicts":       strings.Repeat("{1:", 50_000),
	}
	harmless := map[string]string{"cookie": "# -*- coding: no-such-code -*-\nx = 1\n", "BOM": "\ufeffx = 1\n", "empty": "", "form feed": "\f\nx = 1\n"}
	var programs []api.CheckProgram
	for _, set := range []map[string]string{hostile, harmless} {
		for name, code := range set {
			programs = append(programs, api.CheckProgram{Name: name, Code: code}, api.CheckProgram{Name: "beside " + name, Code: "def f(x): return x\n"})
		}
	}
	for some := range slices.Chunk(programs, 8) { // together they are too large
		for _, c := range f.check(t, some...) {
			switch {
			case strings.HasPrefix(c.Name, "beside") || harmless[c.Name] != "" || c.Name == "empty":
				if !c.OK || c.Error != nil {
					t.Errorf("%s: %+v", c.Name, c.Error)
				}
			case c.Error == nil && c.Name != "statements" && c.Name != "power" && c.Name != "attributes":
				t.Errorf("%s has no error: %+v", c.Name, c)
			case c.Error != nil:
				t.Logf("%s: %s: %.150s", c.Name, c.Error.Type, c.Error.Message)
			}
		}
	}
	r, err := f.api.Run(t.Context(), job.Spec{Program: python("print(6 * 7)")})
	if err != nil || r.Stdout.Text != "42\n" {
		t.Errorf("after them: %+v %v", r, err)
	}
}

func indented(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "%sif 1:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// checkThousand measures the time of one program.
func checkThousand(t *testing.T, f *fleet) {
	programs := make([]api.CheckProgram, 1000)
	for i := range programs {
		programs[i].Code = fmt.Sprintf("import math\n\ndef f%d(xs):\n    total = 0\n    for i, x in enumerate(xs):\n        if x %% 2 == 0:\n            total += math.sqrt(x) * i\n        else:\n            total -= sum(y for y in range(x))\n    return total\n\nprint(f%d(list(range(100))))\n", i, i)
		if i%10 == 9 {
			programs[i].Code += "print(undefined_here)\n"
		}
	}
	start := time.Now()
	got := f.check(t, programs...)
	took := time.Since(start)
	for i, c := range got {
		if !c.OK || c.Functions[0].Name != fmt.Sprintf("f%d", i) || (len(c.Undefined) == 1) != (i%10 == 9) {
			t.Fatalf("%d: %+v", i, c)
		}
	}
	t.Logf("1000 programs in %v, %v each", took.Round(time.Millisecond), (took / 1000).Round(time.Microsecond))
	best := time.Hour
	for range 20 {
		start := time.Now()
		f.check(t, programs[0])
		best = min(best, time.Since(start))
	}
	t.Logf("one program alone in %v", best.Round(100*time.Microsecond))
}

func checkBad(t *testing.T, f *fleet) {
	mib := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		req   api.CheckRequest
		field string
		kind  error
	}{
		"none":         {api.CheckRequest{}, "programs", job.ErrInvalid},
		"too many":     {api.CheckRequest{Programs: make([]api.CheckProgram, 1001)}, "programs", job.ErrInvalid},
		"10 MB":        {api.CheckRequest{Programs: []api.CheckProgram{{Code: strings.Repeat("x", 10<<20)}}}, "programs[0].code", job.ErrTooLarge},
		"8 of 1 MiB":   {api.CheckRequest{Programs: slices.Repeat([]api.CheckProgram{{Code: mib}}, 8)}, "programs", job.ErrTooLarge},
		"name":         {api.CheckRequest{Programs: []api.CheckProgram{{Names: []string{"ok", "a b"}}}}, "programs[0].names[1]", job.ErrInvalid},
		"policy":       {api.CheckRequest{Programs: []api.CheckProgram{{}, {Policy: json.RawMessage(`{"memroy":1}`)}}}, "programs[1].policy.memroy", job.ErrInvalid},
		"policy known": {api.CheckRequest{Programs: []api.CheckProgram{{Policy: json.RawMessage(`"nope"`)}}}, "programs[0].policy", job.ErrInvalid},
		"image":        {api.CheckRequest{Image: "no such image!", Programs: make([]api.CheckProgram, 1)}, "image", job.ErrInvalid},
		"pool":         {api.CheckRequest{Pool: "nope", Programs: make([]api.CheckProgram, 1)}, "pool", job.ErrInvalid},
	} {
		_, err := f.api.Check(t.Context(), c.req)
		var field *job.FieldError
		if !errors.Is(err, c.kind) || !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want field %s", name, err, c.field)
		}
	}
	resp, err := http.Post(f.URL()+"/v1/check", "application/json", strings.NewReader(`{"programs":[{"code":"1","cod":"1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p api.ProblemDetails
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || len(p.Errors) != 1 || p.Errors[0].Field != "programs[0].cod" {
		t.Errorf("%d %+v %v", resp.StatusCode, p, err)
	}
}

func checkCommand(t *testing.T, f *fleet) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.py", "def f():\n    return 1\n")
	bad := write("bad.py", "import os\nimport nowhere\nprint(zz)\n")
	broken := write("broken.py", "def f(:\n")
	policy := write("policy.json", `{"imports":{"deny":["os"]}}`)
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(f.bin, "assay"), append([]string{"--url", f.URL()}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		cmd.Stdin = strings.NewReader("x = \n")
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out) + stderr.String(), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"check", good}, "", 0},
		{[]string{"check", "--policy", policy, good, bad, broken}, bad + ":1: import of os is forbidden by the policy\n" + bad + ":2: the image has no module nowhere\n" +
			bad + ":3:7: undefined name zz\n" + broken + ":1:7: SyntaxError: invalid syntax\n", 1},
		{[]string{"check", "--name", "zz", bad}, bad + ":2: the image has no module nowhere\n", 1},
		{[]string{"check", "-"}, "-:1:5: SyntaxError: invalid syntax\n", 1},
		{[]string{"check", filepath.Join(dir, "none.py")}, "assay: open " + filepath.Join(dir, "none.py") + ": no such file or directory\n", 125},
	} {
		if out, code := run(c.args...); out != c.want || code != c.code {
			t.Errorf("assay %v: exit %d, want %d\n got %q\nwant %q", c.args, code, c.code, out, c.want)
		}
	}
	out, code := run("--json", "check", good, broken)
	var report api.CheckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || len(report.Programs) != 2 || report.Programs[1].Name != broken || !report.Programs[0].OK {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

// checkLarge reports more than a result can hold: the report is stored beside it, and read from
// there.
func checkLarge(t *testing.T, f *fleet) {
	var code strings.Builder
	for i := range 200 {
		fmt.Fprintf(&code, "def function_number_%d(%s): pass\n", i, strings.Repeat("a", 200))
	}
	got := f.check(t, slices.Repeat([]api.CheckProgram{{Code: code.String()}}, 100)...)
	for i, c := range got {
		if len(c.Functions) != 200 || c.Truncated {
			t.Fatalf("%d: %d functions", i, len(c.Functions))
		}
	}
}

// checkIsolations runs the checking program at the isolations that a tenant's ceiling may require.
func checkIsolations(t *testing.T, f *fleet) {
	variables := map[string]json.RawMessage{"rules": json.RawMessage(`""`), "seconds": json.RawMessage("20")}
	programs := []map[string]string{{"code": "print(x)"}, {"code": "a" + strings.Repeat(".a", 300_000)}, {"code": strings.Repeat("-", 1_000_000) + "1"}, {"code": "def f(): pass"}}
	var err error
	if variables["programs"], err = json.Marshal(programs); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"cell", "task", "gvisor"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			program := job.Program{Python: &job.Python{Code: checker.Static(), Variables: variables}}
			r, err := f.api.Run(t.Context(), job.Spec{Program: program, Policy: json.RawMessage(`{"isolation":"` + level + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			var report api.CheckReport
			if err := json.Unmarshal([]byte(r.Stdout.Text), &report); err != nil || r.Outcome != job.Succeeded || len(report.Programs) != 4 {
				t.Fatalf("%s %v %.500s %s", r.Outcome, err, r.Stdout.Text, r.Stderr.Text)
			}
			got := report.Programs
			if len(got[0].Undefined) != 1 || got[1].Error == nil || got[2].Error == nil || got[3].Error != nil || len(got[3].Functions) != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

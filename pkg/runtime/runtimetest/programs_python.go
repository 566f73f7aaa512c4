package runtimetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// display has stand-ins for the libraries, with the properties that identify the real ones.
const display = `
import sys, types
class Frame:
    columns = ["a", "b"]
    def to_records(self): pass
    def head(self, n): return self
    @property
    def values(self): return types.SimpleNamespace(tolist=lambda: [[1, "x"], [2.5, None]])
    def __len__(self): return 200
plt = types.ModuleType("matplotlib.pyplot")
plt.get_fignums = lambda: [7]
plt.figure = lambda n: types.SimpleNamespace(savefig=lambda f, format: f.write(b"PNG %d" % n))
plt.close = lambda which: None
sys.modules["matplotlib.pyplot"] = plt
Frame()`

// pythonPrograms returns snippets that test inputs and results.
func pythonPrograms() []program {
	given := &job.Python{
		Code:      "y = x * 2\nitems.append(3)\nsame\n_hidden = 1\nimport os\ndef f(): pass\n{'y': y, 'c': context['k']}",
		Variables: map[string]json.RawMessage{"x": []byte("21"), "items": []byte("[1,2]"), "same": []byte(`"s"`)},
		Context:   []byte(`{"k": "v"}`),
	}
	return []program{
		{name: "value and variables", run: job.Program{Python: given}, outcome: job.Succeeded, check: func(t *testing.T, r *ran) {
			if r.Value == nil || r.Value.Type != "dict" || r.Value.Repr != "{'y': 42, 'c': 'v'}" || string(r.Value.JSON) != `{"y": 42, "c": "v"}` {
				t.Errorf("value = %+v", r.Value)
			}
			got := map[string]string{}
			for name, v := range r.Variables {
				got[name] = v.Type + " " + v.Repr
			}
			if f := got["f"]; !strings.HasPrefix(f, "function <function f at 0x") {
				t.Errorf("f = %q", f)
			}
			delete(got, "f")
			if d := cmp.Diff(map[string]string{"y": "int 42", "items": "list [1, 2, 3]"}, got); d != "" {
				t.Errorf("variables (-want +got):\n%s", d)
			}
		}},
		{name: "exception", outcome: job.Exception, code: 1,
			run: py("def f(n):\n    return 1 // n\n\nprint('so far')\nf(0)\n"), check: func(t *testing.T, r *ran) {
				want := &job.ExceptionInfo{Type: "ZeroDivisionError", Message: "integer division or modulo by zero", Line: 2}
				want.Traceback = "Traceback (most recent call last):\n  File \"<job>\", line 5, in <module>\n    f(0)\n" +
					"  File \"<job>\", line 2, in f\n    return 1 // n\n"
				got := *r.Exception
				if !strings.HasPrefix(got.Traceback, want.Traceback) || strings.Contains(got.Traceback, "harness") {
					t.Errorf("traceback = %s", got.Traceback)
				}
				got.Traceback = want.Traceback
				if d := cmp.Diff(want, &got); d != "" {
					t.Error(d)
				}
				stdoutIs("so far\n")(t, r)
				if r.Stderr.Text != r.Exception.Traceback {
					t.Errorf("stderr = %q, want the traceback", r.Stderr.Text)
				}
			}},
		{name: "streams in order", outcome: job.Succeeded,
			run: py("import sys\nprint('a')\nprint('é', file=sys.stderr)\nprint('b', end='')\nprint('c')\nsys.stderr.write('d')"),
			check: func(t *testing.T, r *ran) {
				want := []job.Chunk{{Stream: "stdout", Text: "a\n"}, {Stream: "stderr", Text: "é\n"}, {Stream: "stdout", Text: "bc\n"}, {Stream: "stderr", Text: "d"}}
				if d := cmp.Diff(want, r.Output); d != "" {
					t.Errorf("output (-want +got):\n%s", d)
				}
			}},
		{name: "order that is not known", outcome: job.Succeeded, run: py("import os, sys\nprint('a')\nos.write(2, b'x')\nprint('b', file=sys.stderr)"),
			check: func(t *testing.T, r *ran) {
				if r.Output != nil || r.Stdout.Text != "a\n" || r.Stderr.Text != "xb\n" {
					t.Errorf("output %+v of %q and %q", r.Output, r.Stdout.Text, r.Stderr.Text)
				}
			}},
		{name: "data frame and figures", outcome: job.Succeeded, run: py(display), edit: func(p *policy.Policy) { p.Artifacts.Paths = []string{"/workspace/*.png"} },
			check: func(t *testing.T, r *ran) {
				want := []job.Display{
					{MediaType: "application/vnd.assay.table+json", Table: &job.Table{Columns: []string{"a", "b"}, Rows: [][]string{{"1", "x"}, {"2.5", "None"}}, Total: 200}},
					{MediaType: "image/png", Path: "/workspace/figure-1.png"},
				}
				if d := cmp.Diff(want, r.Display); d != "" {
					t.Errorf("display (-want +got):\n%s", d)
				}
				artifactsAre(map[string]string{"/workspace/figure-1.png": "PNG 7"})(t, r)
			}},
		{name: "syntax error", run: py("x = 1\ny = (\n"), outcome: job.Exception, code: 1, check: func(t *testing.T, r *ran) {
			exceptionIs("SyntaxError")(t, r)
			if r.Exception.Line != 2 || strings.Contains(r.Exception.Traceback, "ast.py") {
				t.Errorf("exception = %+v", r.Exception)
			}
		}},
		{name: "exit", run: py("import sys; sys.exit(7)"), outcome: job.Failed, code: 7},
		{name: "exit with a message", run: py("import sys; sys.exit('no good')"), outcome: job.Failed, code: 1, check: func(t *testing.T, r *ran) {
			if r.Stderr.Text != "no good\n" || r.Exception != nil {
				t.Errorf("stderr = %q, exception %v", r.Stderr.Text, r.Exception)
			}
		}},
		{name: "leaves at once", run: py("import os; print('x'); os._exit(4)"), outcome: job.Failed, code: 4, check: stdoutIs("x\n")},
		{name: "writes its own result", outcome: job.Succeeded, run: py(`
import os
os.write(4, b'{"value": {"type": "x", "repr": "' + b"y" * 10_000_000 + b'"}}')
os._exit(0)`), check: func(t *testing.T, r *ran) {
			if r.Value != nil {
				t.Errorf("value = %.100v", r.Value)
			}
		}},
		{name: "exit handlers and threads", outcome: job.Succeeded, check: stdoutIs("main\nthread\nhandler\n"), run: py(`
import atexit, threading, time
atexit.register(print, "handler")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
print("main")`)},
		{name: "hostile methods", outcome: job.Succeeded, run: py(`
class Bad:
    def __repr__(self): raise SystemExit(9)
    def __eq__(self, other): raise RuntimeError
    def __bool__(self): raise RuntimeError
class Deep:
    def __repr__(self): return repr(self)
bad, deep, huge, big = Bad(), Deep(), 'x' * 50_000_000, list(range(3_000_000))
bad`), check: func(t *testing.T, r *ran) {
			for name, v := range r.Variables {
				if len(v.Repr) > 4<<10 {
					t.Errorf("%s: repr of %d bytes", name, len(v.Repr))
				}
			}
			if len(r.Variables) != 6 {
				t.Errorf("variables = %v", r.Variables)
			}
		}},
		{name: "main module", outcome: job.Succeeded, check: stdoutIs("__main__ True ['<job>'] True\n"), run: py(`
import sys, __main__
print(__name__, __main__.__dict__ is globals(), sys.argv, "run" not in globals())`)},
		{name: "modules beside it", outcome: job.Succeeded, check: stdoutIs("beside\n"), run: py(`
open("mine.py", "w").write("name = 'beside'")
import mine
print(mine.name)`)},
		{name: "numpy", run: py("import numpy; print(int(numpy.arange(5).sum()))"), outcome: job.Succeeded, check: stdoutIs("10\n")},
	}
}

func exceptionIs(kind string) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		if r.Exception == nil || r.Exception.Type != kind {
			t.Errorf("exception = %+v, want %s", r.Exception, kind)
		}
	}
}

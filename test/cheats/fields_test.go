package cheats

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// verdictFields returns the names of all fields that the worker reads of a sandbox's messages, from the source of package grade.
func verdictFields(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/worker/grade/frame.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	types := []string{"message", "exception", "verdict"}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !slices.Contains(types, spec.Name.Name) {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if f.Tag == nil {
				continue
			}
			tag, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return true
	})
	if len(names) < 25 {
		t.Fatalf("only these fields were found: %v", names)
	}
	return names
}

// forgeries are the values that a field is forged with, besides those that mean something in it.
var forgeries = []string{"True", "False", "None", "0", "1", "-1", "1 << 62", "1e308", "''", "'passed'", "'return'", "'verdict'", "'done'", "'ended'", "'late'", "'loaded'", "'ready'", "'raise'", "[]", "[True]", "{}",
	"{'type': 'AssertionError', 'mro': ['AssertionError'], 'message': ''}", "{'passed': True}"}

// forger is a solution that has no right answer, and forges one field of every message of its sandbox, in place of the true one
// and in a message of its own before that. Each argument selects a value and a way to fail.
const forger = `
import os, sys
field, values, now = %q, [%s], [None]
_send = sys.modules["assay_wire"].Channel.send
def send(self, m):
    if now[0] is None or type(m) is not dict: return _send(self, m)
    v = values[now[0] %% len(values)]
    if now[0] // len(values) %% 2:
        _send(self, {**{k: m[k] for k in ("op", "id") if k in m}, field: v})
    return _send(self, {**m, field: v})
sys.modules["assay_wire"].Channel.send = send
_case = sys.modules["assay_solution"].Solution.case
def case(self, m):
    now[0] = int(m["args"][0])
    return _case(self, m)
sys.modules["assay_solution"].Solution.case = case
def f(x):
    now[0] = x
    if x %% 3 == 1: raise ValueError("no answer")
    if x %% 3 == 2 and os.getpid() != main: os._exit(0)
    return "wrong"
main = os.getpid()
`

// excuses are outcomes that are no verdict on a solution.
var excuses = []job.Outcome{job.CheckError, job.SetupError, job.Lost, job.Expired, job.OutcomeCanceled}

// fieldsPart are the fields at isolation cell: most forgeries end at the time limit, so all of them take minutes.
var fieldsPart = testenv.NewPart("fields", 6)

// TestNoFieldCanBeForged forges every field that the worker reads of a sandbox's messages. No forgery passes a case or a test of
// a check, and none is an excuse.
func TestNoFieldCanBeForged(t *testing.T) {
	all := verdictFields(t)
	eachIsolation(t, func(t *testing.T, f *fleet) {
		fields := all
		if f.isolation == policy.Cell && f.imports == "" {
			fields = testenv.Of(t, fieldsPart, fields)
		}
		for _, field := range part(t, f, fields) {
			t.Run(field, func(t *testing.T) {
				t.Parallel()
				code := fmt.Sprintf(forger, field, strings.Join(forgeries, ", "))
				tokens := answers(t)
				tests := &job.Tests{Code: code, Function: "f", Check: "T = " + strconv.Quote(tokens[0]) + "\n"}
				for i := range 2 * len(forgeries) {
					tests.Cases = append(tests.Cases, job.Case{Args: []json.RawMessage{fmt.Append(nil, i)}, Expected: fmt.Appendf(nil, "%q", tokens[i%len(tokens)]), Wall: job.Duration(time.Second)})
					tests.Check += fmt.Sprintf("def test_%d(): assert candidate(%d) == T\n", i, i)
				}
				rep := f.grade(t, tests, func(p *policy.Policy) { p.Wall, p.CPUTime = job.Duration(time.Minute), job.Duration(time.Minute) })
				if rep.Tests == nil || rep.Tests.Passed != 0 || rep.Outcome == job.Succeeded || slices.Contains(excuses, rep.Outcome) {
					t.Fatalf("%s %s: %+v", rep.Outcome, rep.Message, rep.Tests)
				}
				for _, c := range rep.Tests.Cases {
					if slices.Contains(excuses, c.Outcome) {
						t.Errorf("%s is %s: %s", c.Name, c.Outcome, c.Message)
					}
				}
			})
		}
	})
}

package grade

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestUndecodableArguments checks that arguments that the image cannot decode are errors of the tests, and that a
// solution cannot cause such an error.
func TestUndecodableArguments(t *testing.T) {
	t.Parallel()
	const (
		array  = `{"$ndarray":["<i8",[1],"AQAAAAAAAAA="]}`
		hidden = "import sys\nsys.modules['numpy'] = None\n" // as in an image without numpy
		echo   = "def f(x=1, y=1): return 1\n"
	)
	for name, c := range map[string]struct {
		cases, setup, code string
		want               job.Outcome
		says               string
	}{
		"an array":            {`[{"args":[` + array + `],"expected":1}]`, hidden, echo, job.CheckError, "this image has no numpy"},
		"beneath a list":      {`[{"args":[[1,{"a":` + array + `}]],"expected":1}]`, hidden, echo, job.CheckError, "the arguments of case 1 cannot be decoded"},
		"by keyword":          {`[{"kwargs":{"y":` + array + `},"expected":1}]`, hidden, echo, job.CheckError, "this image has no numpy"},
		"in a later case":     {`[{"args":[1],"expected":1},{"name":"n","args":[` + array + `],"expected":1}]`, hidden, echo, job.CheckError, "the arguments of n cannot"},
		"bad elements":        {`[{"args":[{"$ndarray":["O",[1],"AQAAAAAAAAA="]}],"expected":1}]`, "", echo, job.CheckError, "not an array"},
		"an unknown class":    {`[{"args":[{"$obj":["Nonesuch",[]]}],"expected":1}]`, "class A: pass\n", echo, job.CheckError, "Nonesuch"},
		"a class of setup":    {`[{"args":[{"$obj":["A",[["x",1]]]}],"expected":1}]`, "class A: pass\n", "def f(a): return a.x\n", job.Succeeded, ""},
		"text and keys":       {`[{"args":["{\"$ndarray\"}",{"$dict":[["$ndarray",1]]}],"expected":1}]`, hidden, echo, job.Succeeded, ""},
		"broken by solutions": {`[{"args":[{"$obj":["A",[["x",1]]]}],"expected":1}]`, "class A: pass\n", "import assay_wire\nassay_wire.Codec.decode = None\ndef f(a): return 1\n", job.Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &job.Tests{Code: c.code, Setup: c.setup, Function: "f"}
			if err := json.Unmarshal([]byte(c.cases), &spec.Cases); err != nil {
				t.Fatal(err)
			}
			r := runTests(t, spec)
			if r.Outcome != c.want || (r.Tests.Score == nil) != (c.want == job.CheckError) {
				t.Fatalf("outcome %s of %+v, want %s", r.Outcome, r.Tests.Cases, c.want)
			}
			if last := r.Tests.Cases[len(r.Tests.Cases)-1]; !strings.Contains(last.Message, c.says) {
				t.Errorf("message %q, want %q", last.Message, c.says)
			}
		})
	}
}

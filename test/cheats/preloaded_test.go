package cheats

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// A solution that is forked from an interpreter with its imports finds them only after it imports
// them, under the rules for imports. It is graded like any other.
func TestPreloadedSolutions(t *testing.T) {
	f := newFleet(t, policy.Cell)
	f.imports = preloaded
	f.warm(t)
	one := []job.Case{{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("2")}}
	const sight = "import sys\nfound = 'asyncio' in sys.modules\nimport asyncio\n"
	for name, tests := range map[string]*job.Tests{
		"cases":             {Code: sight + "async def g(x): return x + 1\ndef f(x): return not found and asyncio.run(g(x))", Function: "f", Cases: one},
		"check":             {Code: sight + "def f(x): return not found and x + 1", Function: "f", Check: sight + "def test_it():\n    assert f(1) == 2 and not found"},
		"setup of the test": {Code: "def f(x): return asyncio.run(g(x))", Setup: sight + "assert not found\nasync def g(x): return x + 1", Function: "f", Cases: one},
		"state of a module": {Code: "import asyncio\nstained = hasattr(asyncio, 'stain')\nasyncio.stain = 1\ndef f(x): return not stained and x + 1", Function: "f", Cases: append(one, one...)},
	} {
		for range 2 {
			if rep := f.grade(t, tests, nil); rep.Outcome != job.Succeeded {
				t.Errorf("%s: %s %+v", name, rep.Outcome, rep.Tests)
			}
		}
	}
	for _, code := range []string{"import asyncio\ndef f(x): return x + 1", "import importlib\nasyncio = importlib.import_module('asyncio')\ndef f(x): return x + 1"} {
		rep := f.grade(t, &job.Tests{Code: code, Function: "f", Cases: one}, func(p *policy.Policy) { p.Imports.Deny = []string{"asyncio"} })
		if c := rep.Tests.Cases[0]; c.Passed || !strings.Contains(c.Message, "asyncio") {
			t.Errorf("%q: %+v", code, c)
		}
	}
}

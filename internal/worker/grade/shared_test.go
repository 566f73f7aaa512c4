package grade

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestSharedProcess checks that checks can run in the solution's process, as some benchmarks need it.
func TestSharedProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup, code, function, check string
		want, says                   string
	}{
		"captured output":                {code: "def f(x): print('hi', x)\n", check: "import io, contextlib\ndef check(c):\n    b = io.StringIO()\n    with contextlib.redirect_stdout(b): c(1)\n    assert b.getvalue() == 'hi 1\\n'\n", want: "check succeeded"},
		"a patched input":                {code: "def f(): return int(input()) * 2\n", check: "from unittest.mock import patch\ndef check(c):\n    with patch('builtins.input', return_value='4'): assert c() == 8\n", want: "check succeeded"},
		"a patched module":               {code: "import random\ndef f(): return random.randint(1, 6)\n", check: "import unittest\nfrom unittest.mock import patch\nclass TestCases(unittest.TestCase):\n    @patch('random.randint', return_value=7)\n    def test_a(self, m):\n        self.assertEqual(f(), 7)\n        m.assert_called_once_with(1, 6)\n", want: "TestCases.test_a succeeded"},
		"a patched name of the solution": {code: "from random import randint\ndef f(): return randint(1, 6)\n", check: "from unittest.mock import patch\ndef test_main():\n    with patch('__main__.randint', return_value=7): assert f() == 7\ndef test_solution():\n    with patch('solution.randint', return_value=8): assert f() == 8\ndef test_name():\n    with patch(__name__ + '.randint', return_value=9): assert f() == 9\n", want: "test_main succeeded, test_solution succeeded, test_name succeeded"},
		"seeds":                          {code: "import random\ndef f(): return random.random()\n", check: "import random\ndef check(c):\n    random.seed(1); a = c(); random.seed(1)\n    assert c() == a == random.Random(1).random()\n", want: "check succeeded"},
		"files":                          {code: "def f(p): return open(p).read()\n", check: "import tempfile, os\ndef check(c):\n    with tempfile.TemporaryDirectory() as d:\n        p = os.path.join(d, 'a'); open(p, 'w').write('hi')\n        assert c(p) == 'hi'\n", want: "check succeeded"},
		"the environment":                {code: "import os\ndef f(): return os.environ['X_KEY']\n", check: "import os\ndef check(c):\n    os.environ['X_KEY'] = 'v'\n    assert c() == 'v'\n", want: "check succeeded"},
		"a signature":                    {code: "def f(a, b=2, *, c):\n    'mine'\n    return 1\n", check: "import inspect\ndef check(x):\n    assert list(inspect.signature(x).parameters) == ['a', 'b', 'c'] and x.__doc__ == 'mine'\n", want: "check succeeded"},
		"classes":                        {code: "from collections import OrderedDict\nclass Own: pass\ndef f(x): return OrderedDict(a=Own())\n", check: "from collections import OrderedDict\ndef check(c):\n    assert isinstance(c(1), OrderedDict) and isinstance(c(1)['a'], Own)\n", want: "check succeeded"},
		"a main guard":                   {code: "def f(x): return x\nif __name__ == '__main__': 1 / 0\n", check: "def check(c): assert c(1) == 1 and __name__ == '__main__'\n", want: "check succeeded"},
		"no function":                    {code: "def task_func(x): return x\n", function: "-", check: "import unittest\nclass TestCases(unittest.TestCase):\n    def test_a(self): self.assertEqual(task_func(1), 1)\n", want: "TestCases.test_a succeeded"},
		"a method":                       {code: "class Solution:\n    def two(self, x): return x * 2\n", function: "Solution().two", check: "def check(candidate): assert candidate(2) == 4\n", want: "check succeeded"},
		"wrong":                          {code: "def f(x): return x\n", check: "def test_a(): assert f(1) == 1\ndef test_b(): assert f(1) == 2, 'no'\n", want: "test_a succeeded, test_b failed", says: "no"},
		"raises":                         {code: "def f(x): return 1 / 0\n", check: "def test_a(): f(1)\n", want: "test_a exception", says: "ZeroDivisionError"},
		"a callback of the check raises": {code: "def f(g): return g()\n", check: "def test_a():\n    def g(): assert False, 'mine'\n    f(g)\n", want: "test_a failed", says: "mine"},
		"unloaded":                       {code: "1 / 0\n", check: "def test_a(): f(1)\n", want: "check exception", says: "ZeroDivisionError"},
		"undefined":                      {code: "g = 1\n", check: "def test_a(): f(1)\n", want: "check exception", says: "f is not defined"},
		"a bad setup":                    {setup: "1 / 0\n", code: "def f(x): return x\n", check: "def test_a(): f(1)\n", want: "check check_error", says: "setup of the tests raised"},
		"a bad check":                    {code: "def f(x): return x\n", check: "def test_a(: f(1)\n", want: "check check_error", says: "SyntaxError"},
		"a missing module":               {code: "def f(x): return x\n", check: "import nonesuch.part\ndef test_a(): f(1)\n", want: "check check_error", says: "nonesuch"},
		"it exits":                       {code: "import os\ndef f(x): os._exit(0)\n", check: "def test_a(): f(1)\ndef test_b(): f(2)\n", want: "check failed, check failed", says: "ended itself"},
		"it skips them":                  {code: "import unittest\ndef f(x): raise unittest.SkipTest('no')\n", check: "def test_a(): f(1)\n", want: "test_a canceled, check failed", says: "every test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			function := "f"
			if c.function != "" {
				function = strings.TrimPrefix(c.function, "-")
			}
			r := runTests(t, &job.Tests{Setup: c.setup, Code: c.code, Function: function, Check: c.check, Process: job.Shared})
			var got []string
			for _, v := range r.Tests.Cases {
				got = append(got, v.Name+" "+string(v.Outcome))
			}
			if strings.Join(got, ", ") != c.want || !strings.Contains(strings.Join(r.Feedback, "\n"), c.says) {
				t.Errorf("%v, want %s; %q", got, c.want, r.Feedback)
			}
			if !r.Tests.Forgeable {
				t.Error("the result is not marked as forgeable")
			}
		})
	}
	t.Run("it hangs", func(t *testing.T) {
		t.Parallel()
		r := runTests(t, &job.Tests{Code: "def f(x):\n    while x == 2: pass\n    return x\n", Function: "f", Process: job.Shared,
			Check: "def test_a(): assert f(1) == 1\ndef test_b(): f(2)\ndef test_c(): f(3)\n"}, func(p *policy.Policy) { p.Wall = job.Duration(8 * time.Second) })
		if r.Tests.Passed != 1 || r.Tests.Total != 3 || r.Tests.Cases[1].Outcome != job.TimedOut {
			t.Errorf("%+v", r.Tests)
		}
	})
	t.Run("its imports are ruled", func(t *testing.T) {
		t.Parallel()
		r := runTests(t, &job.Tests{Code: "def f(x):\n    import json\n    return x\n", Function: "f", Process: job.Shared, Check: "import json\ndef test_a(): assert f(1) == 1\n"},
			func(p *policy.Policy) { p.Imports.Deny = []string{"json"} })
		if r.Tests.Passed != 0 || r.Outcome == job.CheckError {
			t.Errorf("%+v", r.Tests)
		}
	})
	if r := runTests(t, &job.Tests{Code: "def f(x): return x\n", Function: "f", Check: "def test_a(): assert f(1) == 1\n"}); r.Tests.Forgeable {
		t.Error("separate processes are marked as forgeable")
	}
}

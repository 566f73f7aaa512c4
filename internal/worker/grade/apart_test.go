package grade

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestChecksThatNeedOneProcess checks that a check that no solution in another process can pass has no verdict.
func TestChecksThatNeedOneProcess(t *testing.T) {
	t.Parallel()
	const right, wrong = "def f(*x): return x[0] if x else None\n", "def f(*x): raise FileNotFoundError(2, 'x')\n"
	for name, check := range map[string]string{
		"captured output":   "import io, contextlib\ndef check(c):\n    b = io.StringIO()\n    with contextlib.redirect_stdout(b): c(1)\n    assert b.getvalue() == 'hi'\n",
		"captured as":       "import io\nfrom contextlib import redirect_stdout\ndef test_a():\n    with redirect_stdout(io.StringIO()) as b: f(1)\n    assert b.getvalue() == 'hi'\n",
		"a replaced stream": "import io, sys\ndef test_a():\n    old, sys.stdout = sys.stdout, io.StringIO()\n    f(1)\ndef test_b():\n    sys.stdin = io.StringIO('4')\n    assert f(1) == 4\n",
		"a patched input":   "from unittest.mock import patch\ndef check(c):\n    with patch('builtins.input', return_value='4'):\n        assert c() == 8\n",
		"a decorator":       "import unittest\nfrom unittest import mock\nclass T(unittest.TestCase):\n    @mock.patch('random.randint', return_value=7)\n    def test_a(self, m): self.assertEqual(f(), 7)\n",
		"a patched object":  "import random\nfrom unittest.mock import patch\ndef test_a():\n    with patch.object(random, 'randint', return_value=7): assert f() == 7\n",
		"a helper":          "from unittest.mock import patch\ndef run(): return f()\ndef test_a():\n    with patch('time.sleep') as s:\n        run()\n    s.assert_called()\n",
		"a method":          "import unittest\nfrom unittest.mock import patch\nclass T(unittest.TestCase):\n    def go(self): return f()\n    def test_a(self):\n        with patch('time.sleep') as s: self.go()\n        s.assert_called()\n",
		"a set module":      "import random\ndef test_a():\n    random.randint = lambda a, b: 7\n    assert f() == 7\n",
		"files for it":      "import tempfile, os\ndef check(c):\n    with tempfile.TemporaryDirectory() as d:\n        p = os.path.join(d, 'a'); open(p, 'w').write('hi')\n        assert c(p) == 'hi'\n",
		"a written file":    "def check(c):\n    with open('/tmp/a.txt', 'w') as h: h.write('hi')\n    assert c('/tmp/a.txt') == 'hi'\n",
		"files of it":       "import os\ndef check(c):\n    c('/tmp/out.txt')\n    assert os.path.exists('/tmp/out.txt')\n",
		"logs":              "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertLogs(): f(1)\n",
		"warnings":          "import warnings\ndef test_a():\n    with warnings.catch_warnings(record=True) as w: f(1)\n    assert w\n",
		"its source":        "import inspect\ndef test_a(): assert 'for' in inspect.getsource(f)\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, code := range []string{right, wrong} {
				r := runTests(t, &job.Tests{Code: code, Function: "f", Check: check})
				if r.Outcome != job.CheckError || !strings.Contains(r.Feedback[0], `"process": "shared"`) {
					t.Errorf("%s: %q", r.Outcome, r.Feedback)
				}
			}
		})
	}
	for name, c := range map[string]struct{ code, check string }{
		"silenced output":         {right, "import io, contextlib\ndef check(c):\n    with contextlib.redirect_stdout(io.StringIO()): assert c(1) == 1\n"},
		"silenced warnings":       {right, "import warnings\ndef check(c):\n    with warnings.catch_warnings():\n        warnings.simplefilter('ignore')\n        assert c(1) == 1\n"},
		"seeds for inputs":        {right, "import random\ndef check(c):\n    random.seed(4)\n    for _ in range(5):\n        x = random.random()\n        assert c(x) == x\n"},
		"a seed for the solution": {"import random\ndef f(): return random.random()\n", "import random\ndef check(c):\n    random.seed(1); a = c(); random.seed(1)\n    assert c() == a == random.Random(1).random()\n"},
		"a variable":              {"import os\ndef f(): return os.environ.get('X_KEY')\n", "import os\ndef check(c):\n    os.environ['X_KEY'] = 'v'\n    assert c() == 'v'\n    del os.environ['X_KEY']\n    assert c() is None\n"},
		"a patched variable":      {"import os\ndef f(): return os.environ.get('X_KEY')\n", "import os\nfrom unittest.mock import patch\ndef check(c):\n    with patch.dict(os.environ, {'X_KEY': 'v'}): assert c() == 'v'\n    assert c() is None\n"},
		"a patch of its own":      {"def f(g): return g()\n", "from unittest.mock import patch\ndef helper(): return 1\ndef check(c):\n    with patch('__main__.helper', return_value=2): assert c(lambda: helper()) == 2\n"},
		"a patched stub":          {"def f(s): return s.now()\n", "from unittest.mock import patch\nclass S:\n    def now(self): return 1\ndef check(c):\n    s = S()\n    with patch.object(s, 'now', return_value=2): assert c(s) == 2\n"},
		"a signature":             {"def f(a, b=2, *, c): return 1\n", "import inspect\ndef check(x):\n    p = inspect.signature(x).parameters\n    assert list(p) == ['a', 'b', 'c'] and p['b'].default == 2 and p['c'].kind is p['c'].KEYWORD_ONLY\n    x(1, c=2)\n"},
		"a docstring":             {"def f(x):\n    'mine'\n    return x\n", "def check(c):\n    assert c.__name__ == 'f' and c.__doc__ == 'mine'\n"},
		"data of its own":         {right, "import json\nDATA = json.loads('[1, 2]')\ndef check(c):\n    for x in DATA: assert c(x) == x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runTests(t, &job.Tests{Code: c.code, Function: "f", Check: c.check})
			if r.Outcome != job.Succeeded {
				t.Errorf("%s: %q", r.Outcome, r.Feedback)
			}
		})
	}
	t.Run("an object that cannot pass", func(t *testing.T) {
		t.Parallel()
		r := runTests(t, &job.Tests{Code: right, Function: "f", Check: "import sys\ndef test_a(): assert f(1) == 1\ndef test_b():\n    try: f(sys)\n    except TypeError: pass\n"})
		if r.Outcome != job.CheckError || !strings.Contains(r.Feedback[0], "a module cannot be passed to the solution") {
			t.Errorf("%s: %q", r.Outcome, r.Feedback)
		}
	})
}

package grade

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestSuites checks that suites run as unittest runs them.
func TestSuites(t *testing.T) {
	t.Parallel()
	const right, wrong = "def f(x):\n    if x < 0: raise ValueError('neg')\n    return x\n", "def f(x):\n    raise NotImplementedError\n"
	for name, c := range map[string]struct {
		code, check string
		want        string // names and verdicts in order
		says        string // in the feedback
		score       float64
	}{
		"setUpClass": {right, "class T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.k = 5\n    @classmethod\n    def tearDownClass(cls): del cls.k\n    def test_a(self): self.assertEqual(f(self.k), 5)\n",
			"T.test_a succeeded", "", 1},
		"setUpModule": {right, "k = []\ndef setUpModule(): k.append(5)\ndef tearDownModule(): k.clear()\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(k[0]), 5)\n",
			"T.test_a succeeded", "", 1},
		"setUpClass by inheritance": {right, "class B(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.k = 5\nclass M:\n    def test_m(self): self.assertEqual(f(self.k), 5)\nclass T(M, B):\n    def test_a(self): self.assertEqual(f(self.k), 5)\n",
			"T.test_a succeeded, T.test_m succeeded", "", 1},
		"cleanups": {right, "log = []\nunittest.addModuleCleanup(log.append, 'm') if hasattr(unittest, 'addModuleCleanup') else None\nclass A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.addClassCleanup(log.append, 'c')\n    def test_a(self):\n        self.addCleanup(log.append, 't')\n        self.assertEqual(f(1), 1)\nclass B(unittest.TestCase):\n    def test_b(self): self.assertEqual((f(1), log), (1, ['t', 'c']))\n",
			"A.test_a succeeded, B.test_b succeeded", "", 1},
		"a failing setUpClass fails every test of its class": {wrong, "class A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.k = f(5)\n    def test_a(self): self.assertEqual(f(1), 1)\n    def test_b(self): pass\nclass B(unittest.TestCase):\n    def test_b(self): self.assertRaises(NotImplementedError, f, 1)\n",
			"B.test_b succeeded, A.test_a exception, A.test_b exception", "NotImplementedError", 1. / 3},
		"a setUpClass of no solution's": {right, "class A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): raise KeyError('k')\n    def test_a(self): self.assertEqual(f(1), 1)\n",
			"A.test_a check_error", "KeyError", -1},
		"a failing tearDownClass": {right, "class A(unittest.TestCase):\n    @classmethod\n    def tearDownClass(cls): assert f(1) == 2\n    def test_a(self): self.assertEqual(f(1), 1)\n",
			"A.test_a succeeded, tearDownClass (__main__.A) failed", "expected 2", .5},
		"skips": {right, "class T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 1)\n    @unittest.skip('later')\n    def test_b(self): self.fail()\n    @unittest.skipIf(True, 'no')\n    def test_c(self): self.fail()\n    @unittest.skipUnless(False, 'no')\n    def test_d(self): self.fail()\n    def test_e(self): self.skipTest('now')\n    @unittest.skipIf(False, 'no')\n    def test_g(self): self.assertEqual(f(2), 2)\n",
			"T.test_a succeeded, T.test_b skipped, T.test_c skipped, T.test_d skipped, T.test_e skipped, T.test_g succeeded", "", 1},
		"skipped classes": {right, "@unittest.skip('all')\nclass A(unittest.TestCase):\n    def test_a(self): self.fail()\nclass B(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): raise unittest.SkipTest('no')\n    def test_b(self): self.fail()\nclass C(unittest.TestCase):\n    def setUp(self): self.skipTest('no')\n    def test_c(self): self.fail()\ndef test_d(): raise unittest.SkipTest('x')\ndef test_e(): assert f(1) == 1\n",
			"test_d skipped, test_e succeeded, A.test_a skipped, C.test_c skipped, B.test_b skipped", "", 1},
		"only skips": {right, "class T(unittest.TestCase):\n    @unittest.skip('later')\n    def test_b(self): self.fail()\n", "T.test_b skipped, check check_error", "every test of the check was skipped", -1},
		"a skip that the solution brings about": {wrong, "class T(unittest.TestCase):\n    def test_a(self):\n        try: f(1)\n        except NotImplementedError: self.skipTest('not implemented')\n",
			"T.test_a failed", "skipped after it had called the solution", 0},
		"a skip that a fixture asks for": {wrong, "class T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        try: f(1)\n        except NotImplementedError: raise unittest.SkipTest('not implemented')\n    def test_a(self): self.assertEqual(f(1), 1)\n",
			"T.test_a failed", "skipped after it had called the solution", 0},
		"a skip by what the module asked": {wrong, "try: f(1); ok = True\nexcept NotImplementedError: ok = False\nclass T(unittest.TestCase):\n    @unittest.skipUnless(ok, 'not implemented')\n    def test_a(self): self.assertEqual(f(1), 1)\n",
			"T.test_a failed", "skipped after it had called the solution", 0},
		"expected failures": {right, "class T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_a(self): self.assertEqual(f(1), 2)\n    @unittest.expectedFailure\n    def test_b(self): self.assertEqual(f(1), 1)\n",
			"T.test_a succeeded, T.test_b failed", "was expected to fail", .5},
		"subtests": {"def f(x): return x if x != 1 and x != 3 else 9\n", "seen = []\nclass T(unittest.TestCase):\n    def test_a(self):\n        for i in range(5):\n            with self.subTest(i=i):\n                seen.append(i)\n                self.assertEqual(f(i), i)\n    def test_b(self): self.assertEqual((f(0), seen), (0, [0, 1, 2, 3, 4]))\n",
			"T.test_a failed, T.test_b succeeded", "in (i=1), (i=3)", .5},
		"a skipped subtest": {right, "class T(unittest.TestCase):\n    def test_a(self):\n        for i in range(3):\n            with self.subTest(i=i):\n                if i == 1: self.skipTest('odd')\n                self.assertEqual(f(i), i)\n",
			"T.test_a succeeded", "", 1},
		"an interrupt": {"def f(x): raise KeyboardInterrupt\n", "class T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 1)\n    def test_b(self): self.assertEqual(f(2), 2)\n",
			"T.test_a exception, T.test_b failed", "KeyboardInterrupt", 0},
		"load_tests": {right, "class A(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 1)\nclass B(unittest.TestCase):\n    def test_b(self): self.assertEqual(f(1), 2)\ndef load_tests(loader, tests, pattern):\n    s = unittest.TestSuite()\n    s.addTests(loader.loadTestsFromTestCase(A))\n    return s\n",
			"A.test_a succeeded", "", 1},
		"coroutines": {right, "class T(unittest.IsolatedAsyncioTestCase):\n    async def asyncSetUp(self): self.k = 5\n    async def test_a(self): self.assertEqual(f(self.k), 5)\n",
			"T.test_a succeeded", "", 1},
		"runTest": {right, "class T(unittest.TestCase):\n    def runTest(self): self.assertEqual(f(1), 1)\n", "T.runTest succeeded", "", 1},
		"errors in tearDown and cleanups": {right, "class T(unittest.TestCase):\n    def tearDown(self): assert f(1) == 2\n    def test_a(self): self.assertEqual(f(1), 1)\nclass U(unittest.TestCase):\n    def test_b(self):\n        def c(): assert f(1) == 2\n        self.addCleanup(c)\n        self.assertEqual(f(1), 1)\n",
			"T.test_a failed, U.test_b failed", "expected 2", 0},
		"classes of pytest": {right, "class TestF:\n    def setup_method(self, method): self.k = 5\n    def test_a(self): assert f(self.k) == 5\n    async def test_b(self): assert f(1) == 1\n    def test_c(self): assert f(1) == 2\n",
			"TestF.test_a succeeded, TestF.test_b succeeded, TestF.test_c failed", "expected 2", 2. / 3},
		"a fault in a fixture that looks away": {"def f(x): return object() if x == 5 else x\n", "class T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        try: f(5)\n        except Exception: pass\n    def test_a(self): self.assertEqual(f(1), 1)\n",
			"T.test_a failed", "which is not data", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runTests(t, &job.Tests{Code: c.code, Function: "f", Check: "import unittest\n" + c.check})
			var got []string
			passed, skipped := 0, 0
			for _, v := range r.Tests.Cases {
				verdict := string(v.Outcome)
				if v.Skipped {
					verdict = "skipped"
					skipped++
				}
				if v.Passed {
					passed++
				}
				got = append(got, v.Name+" "+verdict)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%s, want %s", strings.Join(got, ", "), c.want)
			}
			if !strings.Contains(strings.Join(r.Feedback, "\n"), c.says) {
				t.Errorf("%q does not say %q", r.Feedback, c.says)
			}
			if (r.Tests.Score == nil) != (c.score < 0) || r.Tests.Score != nil && *r.Tests.Score != c.score {
				t.Errorf("score %v, want %v", r.Tests.Score, c.score)
			}
			if r.Tests.Passed != passed || r.Tests.Skipped != skipped || r.Tests.Total != len(got)-skipped {
				t.Errorf("%+v", r.Tests)
			}
		})
	}
}

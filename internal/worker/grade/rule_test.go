package grade

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

const ruleSetup = `
import enum, functools
from dataclasses import dataclass, field
from typing import NamedTuple
class Point:
    size = 1
    def __init__(self, x, y): self.x, self.y = x, y
    def same(self, o): return (self.x, self.y) == (o.x, o.y)
class TreeNode:
    def __init__(self, val=0, left=None, right=None): self.val, self.left, self.right = val, left, right
@dataclass
class Card:
    rank: int = 0
    tags: list = field(default_factory=list)
    @functools.cached_property
    def even(self): return self.rank % 2 == 0
class Slim:
    __slots__ = ("a", "b")
    def __init__(self, a): self.a = a
class Pair(NamedTuple):
    left: int
    right: int = 2
class Color(enum.Enum):
    RED = 1
class Listener:
    def __init__(self, f): self.f, self.n = f, 0
class Bad(ValueError):
    def __init__(self, code, text): super().__init__(code, text); self.code = code
`

const liar = `
class Liar:
    def __getattr__(self, name): return lambda *a, **k: True
    def __eq__(self, o): return True
    def __bool__(self): return True
`

// TestOnlyDataAnswers checks that a test that breaks the rule of docs/grading-checks.md fails, even if its code handles the
// error. The feedback explains the breach.
func TestOnlyDataAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, check, says string }{
		"a method":             {liar + "def f(x): return Liar()", "assert f(1).equals([1])", "f(1) returned a Liar, which is not data"},
		"a setup class":        {"def f(x):\n    p = Point(0, 0)\n    p.same = lambda o: True\n    return p", "assert f(1).same(Point(3, 4))", "which is not data"},
		"a changed argument":   {"def f(p): p.same = lambda o: True", "p = Point(0, 0)\nf(p)\nassert p.same(Point(3, 4))", "made of an argument"},
		"a swallowed assert":   {"def f(g):\n    try: g(1)\n    except BaseException: pass", "def g(x):\n    assert x == 2, 'two'\nf(g)", "two"},
		"one of unittest's":    {"def f(g):\n    try: g(1)\n    except BaseException: pass", "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        f(lambda x: self.assertEqual(x, 2))", "1 != 2"},
		"an exception's":       {liar + "def f(x): raise ValueError(Liar())", "try:\n    f(1)\nexcept ValueError as e:\n    assert e.args[0].startswith('no')", "failed: assert"},
		"one that is caught":   {liar + "def f(x): return Liar()", "try: f(1)\nexcept Exception: pass", "which is not data"},
		"one in a list":        {liar + "def f(x): return [1, {2: (Liar(),)}]", "assert f(1)", "a Liar, which is not data"},
		"one passed on":        {liar + "def f(g): g(Liar())", "f(lambda v: None)", "passed to a function of the check a Liar"},
		"one of a generator":   {liar + "def f(x): yield Liar()", "for v in f(1): assert v.ok()", "a Liar, which is not data"},
		"of a with":            {"class M:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\ndef f(x): return M()", "with f(1) as m:\n    assert False, 'seen'", "seen"},
		"a subclass of str":    {"class S(str):\n    def startswith(self, *a): return True\ndef f(x): return S('')", "assert f(1).startswith('x')", "a S, which is not data"},
		"a function's":         {"def f(x): pass\nf.ok = lambda *a: True\ng = f\ndef f(x): return g", "assert f(1).ok(2)", "AttributeError"},
		"a class":              {liar + "def f(x): return Liar", "assert f(1)().ok()", "a Liar, which is not data"},
		"a setup class's own":  {"class P(Point):\n    def same(self, o): return True\ndef f(x): return P(1, 2)", "assert f(1).same(Point(3, 4))", "a P, which is not data"},
		"a field of callables": {"def f(x):\n    p = Point(0, 0)\n    p.same = Listener(1)\n    return p", "assert f(1)", "a Point whose same is not that of its class"},
		"a method's instance":  {"class S:\n    def f(self, x): return self\n    def ok(self, *a): return True", "assert S().f(1).ok(2)", "a S, which is not data"},
		"a helper's method":    {"class H:\n    def ok(self, x): return True\nclass C:\n    def __init__(self): self.h = H()", "assert C().h.ok(2)", "whose ok is a method"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			function := "f"
			if strings.Contains(c.code, "class S:") {
				function = "S.f"
			} else if strings.Contains(c.code, "class C:") {
				function = "C"
			}
			r := runTests(t, &job.Tests{Setup: ruleSetup, Code: c.code, Function: function, Check: c.check})
			if text := strings.Join(r.Feedback, "\n"); r.Outcome != job.Failed || r.Tests.Passed != 0 || !strings.Contains(text, c.says) {
				t.Errorf("%s, %d passed: %q does not say %q", r.Outcome, r.Tests.Passed, text, c.says)
			}
		})
	}
}

// TestHonestShapes checks the values that honest solutions return, and how checks use them.
func TestHonestShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		function, code, check string
		self                  bool // self_reported
	}{
		"a tree": {"f", "def f(v): return TreeNode(v, TreeNode(1), None if v else TreeNode())", "r = f(3)\nassert (r.val, r.left.val, r.right, type(r)) == (3, 1, None, TreeNode)", false},
		"a tree, its own class": {"f", "class TreeNode:\n    def __init__(self, val, left=None): self.val, self.left = val, left\n    def depth(self): return 7\ndef f(n): return TreeNode(n.val + 1, n)",
			"r = f(TreeNode(1))\nassert type(r) is TreeNode and r.val == 2 and r.left.val == 1", false},
		"a tree that is changed": {"f", "def f(n):\n    n.left, n.right = n.right, n.left\n    n.seen = True\n    return n",
			"n = TreeNode(1, None, TreeNode(2))\nr = f(n)\nassert n.left.val == 2 and n.right is None and n.seen and r.left.val == 2", false},
		"a field with a default":    {"f", "def f(p):\n    p.size = 4\n    del p.y", "p = Point(1, 2)\nf(p)\nassert p.size == 4 and p.x == 1 and not hasattr(p, 'y')", false},
		"a dataclass":               {"f", "def f(n):\n    c = Card(n, ['a'])\n    c.even\n    return c", "assert f(3) == Card(3, ['a']) and not f(3).even and f(4).even", false},
		"slots":                     {"f", "def f(s):\n    s.b = s.a\n    return s", "s = Slim(3)\nr = f(s)\nassert r.b == s.b == 3", false},
		"a named tuple":             {"f", "def f(n): return Pair(n)", "assert f(1) == Pair(1, 2) == (1, 2) and f(1).right == 2", false},
		"a named tuple of its own":  {"f", "import collections\nP = collections.namedtuple('P', 'a b')\ndef f(n): return P(n, 2)", "assert f(1) == (1, 2)", false},
		"an enum":                   {"f", "def f(c): return [c, Color.RED]", "assert f(Color.RED)[0] is Color.RED and f(Color.RED)[1].value == 1", false},
		"a listener":                {"f", "def f(o):\n    o.f(5)\n    o.n += 1", "seen = []\no = Listener(seen.append)\nf(o)\nassert seen == [5] and o.n == 1 and o.f == seen.append", false},
		"an exception of the setup": {"f", "def f(x): raise Bad(7, x)", "try:\n    f('t')\nexcept Bad as e:\n    assert e.code == 7 and e.args == (7, 't')\nelse:\n    assert False", false},
		"an exception returned":     {"f", "def f(x):\n    try: return 1 // x\n    except ZeroDivisionError as e: return e", "r = f(0)\nassert isinstance(r, ZeroDivisionError) and 'zero' in str(r) and f(1) == 1", false},
		"views":                     {"f", "def f(d): return [d.keys(), d.values(), d.items()]", "k, v, i = f({1: 2})\nassert k == {1} and list(v) == [2] and list(i) == [(1, 2)] and 1 in k and len(v) == 1", false},
		"lazy iterators":            {"f", "def f(xs): return [map(str, xs), zip(xs, xs), reversed(xs), filter(None, xs), enumerate(xs)]", "assert [list(i) for i in f([0, 1])] == [['0', '1'], [(0, 0), (1, 1)], [1, 0], [1], [(0, 0), (1, 1)]]", false},
		"a coroutine of old":        {"f", "def f():\n    total = 0\n    while True: total += yield total", "g = f()\nassert next(g) == 0 and g.send(3) == 3 and g.send(4) == 7\ng.close()", false},
		"closures":                  {"f", "def f(n):\n    def add(k):\n        nonlocal n\n        n += k\n        return n\n    return add, lambda: n", "add, get = f(1)\nassert add(2) == 3 and get() == 3 and callable(add)", false},
		"a decorator":               {"f", "import functools\ndef f(g):\n    @functools.wraps(g)\n    def h(*a): return g(*a) * 2\n    return h", "@f\ndef g(x): return x + 1\nassert g(1) == 4", false},
		"a context manager":         {"f", "import contextlib\n@contextlib.contextmanager\ndef f(log):\n    log.append('in')\n    yield 5\n", "log = []\nwith f(log) as v:\n    assert v == 5", false},
		"a cache that is cleared":   {"f", "import functools\n@functools.lru_cache\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)", "f.cache_clear()\nassert f(30) == 832040", true},
		"times with zones":          {"f", "from datetime import *\ndef f(): return [datetime(2020, 1, 2, tzinfo=timezone.utc), datetime(2020, 1, 2), timedelta(days=1, seconds=2), time(3, 4), timezone(timedelta(hours=1))]", "from datetime import *\nassert f() == [datetime(2020, 1, 2, tzinfo=timezone.utc), datetime(2020, 1, 2), timedelta(days=1, seconds=2), time(3, 4), timezone(timedelta(hours=1))]", false},
		"a callback that raises":    {"f", "def f(g, n):\n    for i in range(n):\n        try: return g()\n        except ValueError: pass\n    return None", "calls = []\ndef flaky():\n    calls.append(1)\n    if len(calls) < 3: raise ValueError\n    return 'ok'\nassert f(flaky, 5) == 'ok' and len(calls) == 3", false},
		"assertRaises":              {"f", "def f(g):\n    g(1)\n    raise AssertionError('mine')", "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        with self.assertRaises(AssertionError):\n            f(lambda x: x)", false},
		"a vector": {"Vector", "class Vector:\n    def __init__(self, *v): self.v = v\n    def __add__(self, o): return Vector(*(a + b for a, b in zip(self.v, o.v)))\n    def __eq__(self, o): return self.v == o.v\n    def __iter__(self): return iter(self.v)\n    def __len__(self): return len(self.v)",
			"assert Vector(1, 2) + Vector(3, 4) == Vector(4, 6) and list(Vector(1)) == [1] and len(Vector(1)) == 1 and isinstance(Vector(), Vector)", true},
		"a linked list":  {"LinkedList", "class Node:\n    def __init__(self, v): self.v, self.next = v, None\nclass LinkedList:\n    def __init__(self): self.head = None\n    def push(self, v):\n        n = Node(v); n.next = self.head; self.head = n", "l = LinkedList()\nassert l.head is None\nl.push(1)\nl.push(2)\nassert l.head.v == 2 and l.head.next.v == 1 and l.head.next.next is None", true},
		"an iterator":    {"Counter2", "class Counter2:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return self\n    def __next__(self):\n        if not self.n: raise StopIteration\n        self.n -= 1\n        return self.n\n    def has_next(self): return self.n > 0", "c = Counter2(2)\nassert c.has_next() and next(c) == 1 and list(c) == [0] and not c.has_next()", true},
		"an error class": {"TooBig", "class TooBig(ValueError):\n    def __init__(self, code): super().__init__('code %d' % code); self.code = code", "e = TooBig(3)\nassert e.code == 3 and str(e) == 'code 3'", true},
		"a method":       {"Solution.f", "class Solution:\n    def __init__(self): self.n = 0\n    def f(self, x):\n        self.n += x\n        return self.n", "s = Solution()\nassert s.f(1) == 1 and s.f(2) == 3 and s.n == 3 and Solution().f(1) == 1 == candidate(1)", true},
		"a deep copy":    {"Bag", "class Bag:\n    def __init__(self): self.items = []\n    def add(self, x): self.items.append(x)", "import copy\na = Bag()\na.add(1)\nb = copy.deepcopy(a)\nb.add(2)\nassert a.items == [1] and b.items == [1, 2]", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			r := runTests(t, &job.Tests{Setup: ruleSetup, Code: c.code, Function: c.function, Check: c.check})
			if r.Outcome != job.Succeeded {
				t.Fatalf("%s: %q %s", r.Outcome, r.Feedback, r.Stderr.Text)
			}
			if got := r.Tests.Cases[0].SelfReported; got != c.self {
				t.Errorf("self_reported is %v, want %v", got, c.self)
			}
		})
	}
}

// TestWhatObjectsSayIsMarked checks that results mark answers that an instance of the class under test gives about
// itself.
func TestWhatObjectsSayIsMarked(t *testing.T) {
	t.Parallel()
	tests := &job.Tests{
		Code: "class Stack:\n    def __init__(self, *a): pass\n    def __getattr__(self, name): return lambda *a: True\n    def __len__(self): return 3\n    def __eq__(self, o): return True\n", Function: "Stack",
		Check: "def test_method():\n    assert Stack(1).equals([1])\ndef test_operator():\n    assert Stack(1) == Stack(2)\ndef test_length():\n    s = Stack()\n    assert len(s)\n" +
			"kept = Stack(3).holds\ndef test_kept():\n    assert kept(3)\ndef test_data():\n    assert Stack(1) != [1]\ndef test_made():\n    Stack(1)\n",
	}
	r := runTests(t, tests)
	for _, c := range r.Tests.Cases {
		if want := c.Name != "test_made" && c.Name != "test_data"; !c.Passed || c.SelfReported != want {
			t.Errorf("%s: passed %v, self_reported %v, want %v", c.Name, c.Passed, c.SelfReported, want)
		}
	}
	no := false
	tests.Class = &no
	if r := runTests(t, tests); r.Tests.Passed != 0 {
		t.Errorf("as a function: %+v", r.Tests.Cases)
	}
}

// TestWhatIsToBeWritten checks that the function's name determines whether a class is expected, unless the test does.
func TestWhatIsToBeWritten(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		function string
		class    *bool
		want     bool
	}{
		{"Stack", nil, true}, {"stack", nil, false}, {"stack", &yes, true}, {"Split", &no, false}, {"Find_Max", nil, false},
		{"Solution.twoSum", nil, false}, {"Outer.Inner", nil, true}, {"", nil, false}, {"_Hidden", nil, false},
	} {
		if got := (&job.Tests{Function: c.function, Class: c.class}).OfClass(); got != c.want {
			t.Errorf("%s: %v, want %v", c.function, got, c.want)
		}
	}
}

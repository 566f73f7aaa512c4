package grade

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// crowd is a solution that answers with a frame of its own with this value.
const crowd = `
import os, struct
def f(x):
    body = b'{"op":"return","value":%s}'
    data = struct.pack(">I", len(body)) + body
    while data: data = data[os.write(6, data):]
`

// TestChecks grades realistic suites with solutions that must pass or fail them.
func TestChecks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup, code, function, check string
		passed, failed, errors       int
		says                         string // in the feedback
	}{
		"HumanEval": {
			code: "def add(a, b):\n    return a + b\n", function: "add",
			check:  "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate('a', 'b') == 'ab'\n",
			passed: 1,
		},
		"HumanEval, wrong": {
			code: "def add(a, b):\n    return a - b\n", function: "add",
			check: "def check(candidate):\n    assert candidate(1, 2) == 3, 'adds'\n", failed: 1,
			says: "check: add(1, 2) returned -1, expected 3; adds",
		},
		"MBPP": {
			code: "def min_cost(cost, m, n):\n    return 8\n", function: "min_cost",
			check:  "assert min_cost([[1, 2, 3], [4, 8, 2], [1, 5, 3]], 2, 2) == 8\nassert min_cost([[2]], 0, 0) == 8",
			passed: 1,
		},
		"MBPP, wrong": {
			code: "def f(x):\n    return x\n", function: "f", check: "assert f(1) == 1\nassert f(2) == 3", failed: 1,
			says: "f(2) returned 2, expected 3",
		},
		"a check that is called": {
			code: "def f(x):\n    return x\n", function: "f", check: "def check(g):\n    assert g(1) == 1\ncheck(f)\n", passed: 1,
		},
		"test functions": {
			code: "def f(x):\n    return x\n", function: "f", passed: 2, failed: 1,
			check: "def test_a():\n    assert f(1) == 1\ndef test_b(candidate):\n    assert candidate(1) == 2\ndef test_c():\n    assert f('x') == 'x'\ndef helper(x):\n    1/0\n",
			says:  "test_b: f(1) returned 1, expected 2",
		},
		"unittest": {
			code: "def f(x):\n    return [x]\n", function: "f", passed: 2, failed: 1,
			check: "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(1), [1])\n    def test_b(self):\n        self.assertEqual(f(1), [2])\n" +
				"    def test_c(self):\n        with self.assertRaises(TypeError):\n            f(1, 2)\n    def test_d(self):\n        self.skipTest('later')\n",
		},
		"unittest.main": {
			code: "def f(x):\n    return [x]\n", function: "f", failed: 1,
			check: "import unittest\nclass T(unittest.TestCase):\n    def test_b(self):\n        self.assertEqual(f(1), [2])\nif __name__ == '__main__':\n    unittest.main()\n",
		},
		"arguments changed in place": {
			code:     "def f(a, d, s, m):\n    a.sort()\n    d['k'] = [1]\n    s.add(9)\n    m[0][1] = 7\n    del a[0]\n",
			function: "f", passed: 1,
			check: "a, d, s, row = [3, 1, 2], {}, {1}, [0, 0]\nm = [row]\nassert f(a, d, s, m=m) is None\n" +
				"assert a == [2, 3] and d == {'k': [1]} and s == {1, 9} and m == [[0, 7]]\nassert row == [0, 7]\n",
		},
		"changed before an exception": {
			code: "def f(a):\n    a.append(1)\n    raise KeyError('k')\n", function: "f", passed: 1,
			check: "a = []\ntry:\n    f(a)\nexcept KeyError as e:\n    assert e.args == ('k',)\nelse:\n    assert False\nassert a == [1]\n",
		},
		"generators": {
			code: "def f(n):\n    while True:\n        yield n\n        n += 1\n", function: "f", passed: 1,
			check: "import itertools\ng = f(3)\nassert next(g) == 3\nassert list(itertools.islice(g, 3)) == [4, 5, 6]\nassert [a for a, _ in zip(f(0), range(2))] == [0, 1]\n",
		},
		"generators of the check": {
			code: "def f(it):\n    return sum(it) + next(it, 10)\n", function: "f", passed: 1, check: "assert f(i for i in range(4)) == 16\n",
		},
		"exceptions by type": {
			setup:    "class Mine(ValueError):\n    pass\n",
			code:     "import json\nclass Own(KeyError): pass\ndef f(x):\n    if x == 0: raise Mine('m', 1)\n    if x == 1: raise Own('o')\n    if x == 2: return json.loads('{')\n    if x == 3: raise SystemExit(3)\n    return 1 / 0\n",
			function: "f", passed: 1,
			check: "import json\ndef raises(kind, x):\n    try:\n        f(x)\n    except kind as e:\n        return e\n    raise AssertionError(x)\n" +
				"assert raises(Mine, 0).args == ('m', 1)\nassert isinstance(raises(KeyError, 1), KeyError)\nraises(json.JSONDecodeError, 2)\nraises(SystemExit, 3)\nassert str(raises(ZeroDivisionError, 4)) == 'division by zero'\n",
		},
		"keyword arguments": {
			code: "def f(a, *, b=2, **c):\n    return [a, b, c]\n", function: "f", passed: 1,
			check: "assert f(1) == [1, 2, {}]\nassert f(1, b=3, c=4) == [1, 3, {'c': 4}]\n",
		},
		"callables": {
			code: "def f(g, xs, key=None):\n    return [g(x) for x in sorted(xs, key=key)]\n", function: "f", passed: 1,
			check: "seen = []\ndef g(x):\n    seen.append(x)\n    return x * 2\nassert f(g, [3, 1, 2], key=lambda x: -x) == [6, 4, 2]\nassert seen == [3, 2, 1]\n" +
				"try:\n    f(lambda x: {}[x], [1])\n    assert False\nexcept KeyError:\n    pass\n",
		},
		"callables that call back": {
			code: "def f(g, n):\n    return 0 if n == 0 else 1 + g(n - 1)\n", function: "f", passed: 1,
			check: "def g(n):\n    return f(g, n)\nassert f(g, 20) == 20\n",
		},
		"a callable that comes back": {
			code: "def f(g):\n    return g\n", function: "f", passed: 1, check: "g = lambda: 7\nassert f(g) is g\nassert f(f)(g) is g\n",
		},
		"closures": {
			code: "def f(n):\n    return lambda x: x + n\n", function: "f", passed: 1, check: "assert f(3)(4) == 7\nassert list(map(f(1), [1, 2])) == [2, 3]\n",
		},
		"classes": {
			code: "class Stack:\n    made = 0\n    def __init__(self, *items):\n        self.items = list(items)\n        Stack.made += 1\n    def push(self, x):\n        self.items.append(x)\n        return self\n" +
				"    def pop(self):\n        return self.items.pop()\n    def __len__(self):\n        return len(self.items)\n    def __iter__(self):\n        return iter(self.items)\n    def __getitem__(self, i):\n        return self.items[i]\n" +
				"    def __eq__(self, o):\n        return self.items == o.items\n    def __add__(self, o):\n        return Stack(*self.items, *o.items)\n    @property\n    def top(self):\n        return self.items[-1]\n    @staticmethod\n    def empty():\n        return Stack()\n" +
				"    def __enter__(self):\n        return self\n    def __exit__(self, *a):\n        self.items.clear()\n    def __repr__(self):\n        return 'Stack(%s)' % self.items\n",
			function: "Stack", passed: 1,
			check: "s = candidate(1)\ns.push(2).push(3)\nassert len(s) == 3 and list(s) == [1, 2, 3] and s[0] == 1 and s.top == 3 and s.pop() == 3\nassert 2 in s and 9 not in s\n" +
				"s.items = [5]\nassert s.items == [5] and isinstance(s, Stack) and not isinstance(3, Stack)\nassert Stack(1) == Stack(1) and Stack(1) != Stack(2) and Stack(1) + Stack(2) == Stack(1, 2)\n" +
				"assert Stack.made >= 6 and len(Stack.empty()) == 0 and not Stack.empty()\nwith s as e:\n    assert list(e) == [5]\nassert list(s) == []\n" +
				"try:\n    s.pop()\n    assert False\nexcept IndexError:\n    pass\ntry:\n    s.nothing\n    assert False\nexcept AttributeError:\n    pass\n",
		},
		"methods": {
			code: "class Solution:\n    def twoSum(self, nums, target):\n        return [0, 1]\n", function: "Solution.twoSum", passed: 1,
			check: "assert candidate([1, 2], 3) == [0, 1]\nassert Solution().twoSum(nums=[1, 2], target=3) == [0, 1]\n",
		},
		"classes of the setup cross by value": {
			setup: "class Node:\n    def __init__(self, v, next=None):\n        self.v, self.next = v, next\n    def __eq__(self, o):\n        return isinstance(o, Node) and (self.v, self.next) == (o.v, o.next)\n",
			code:  "def f(n):\n    n.v += 1\n    return Node(n.v, n)\n", function: "f", passed: 1,
			check: "n = Node(1, Node(2))\nr = f(n)\nassert type(r) is Node and r.next.next == Node(2) and r == Node(2, Node(2, Node(2)))\nassert n.v == 2\n",
		},
		"types of the library": {
			code:     "import collections, datetime, decimal, fractions\ndef f():\n    return [fractions.Fraction(1, 3), decimal.Decimal('1.5'), datetime.date(2020, 1, 2), collections.Counter('ab'), range(3), collections.deque([1])]\n",
			function: "f", passed: 1,
			check: "import collections, datetime, decimal, fractions\nassert f() == [fractions.Fraction(1, 3), decimal.Decimal('1.5'), datetime.date(2020, 1, 2), {'a': 1, 'b': 1}, range(3), collections.deque([1])]\n",
		},
		"a function that sees names that shadow builtins": {
			code: "len = print = sorted = list = None\nid = 7\ndef f(x):\n    return {'r': [x, id]}\n", function: "f", passed: 1, check: "assert f(1) == {'r': [1, 7]}\n",
		},
		"helpers are not the solution's": {
			code: "def poly(*a): return 0\ndef f(x): return 1\n", function: "f", errors: 1,
			check: "assert poly([1], f(2)) == 0\n", says: "define names that a check needs in setup",
		},
		"helpers of the setup": {
			setup: "def poly(x): return x + 1\n", code: "def poly(x): return 0\ndef f(x): return -1\n", function: "f", passed: 1, check: "assert poly(f(2)) == 0\n",
		},
		"a check that tests nothing": {
			code: "def f(x): return 1\n", function: "f", errors: 1, check: "def test_nothing():\n    pass\n", says: "never called the solution",
		},
		"a check that is wrong": {
			code: "def f(x): return 1\n", function: "f", failed: 1, check: "def check(candidate):\n    candidate(1).nothing()\n", says: "AttributeError",
		},
		"a check that cannot be parsed": {code: "def f(x): return 1\n", function: "f", errors: 1, check: "assert f(1 ==\n", says: "SyntaxError"},
		"a check that compares in its own way": {
			code: "class A:\n    def __init__(self, x): self.v = x\n    def __eq__(self, o): return True\n", function: "A", passed: 1,
			check: "class Approx:\n    def __eq__(self, o):\n        return getattr(o, 'v', o) == 3\nassert A(3) == Approx() and Approx() == A(3)\nassert A(3) != 3 and not A(3) == 3 and 3 != A(3) and A(3) != None\n",
		},
		"a check that writes everywhere": {
			code: "def f(x): return 1\n", function: "f", failed: 1, check: "import os\nos.write(5, b'\\xff' * 100)\n", says: "the check wrote to a descriptor",
		},
		"a check that makes up ops": {
			code: "def f(x): return 1\n", function: "f", failed: 1, check: "import os\nos.write(5, b'\\0\\0\\0\\x0c{\"op\": \"no\"}')\n", says: "the check wrote to a descriptor",
		},
		"a check that exits": {
			code: "def f(x): return 1\n", function: "f", failed: 1, check: "import os\nf(1)\nos._exit(0)\n", says: "did not come to its end",
		},
		"the process ends in one test": {
			code: "import os\ndef f(x):\n    if x == 1: os._exit(0)\n    return x\n", function: "f", passed: 2, failed: 1,
			check: "def test_a():\n    assert f(0) == 0\ndef test_b():\n    try:\n        f(1)\n    except Exception:\n        pass\ndef test_c():\n    assert f(2) == 2\n",
			says:  "test_b: the process ended itself with exit code 0",
		},
		"no such function": {code: "def g(x): return 1\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "f is not defined; there are g"},
		"a syntax error":   {code: "def f(x) return 1\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "at line 1: def f(x) return 1"},
		"no such module": {
			code: "import nonesuch\ndef f(x): return 1\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "ModuleNotFoundError: No module named 'nonesuch' at line 1: import nonesuch (the module is not installed here",
		},
		"no function": {code: "f = 3\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "cannot be called"},
		"an exception": {
			code: "def f(x):\n    return [][x]\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "f(1) raised IndexError: list index out of range",
		},
		"a solution that writes everywhere": {
			code: "import os\ndef f(x):\n    for fd in range(3, 10):\n        try: os.write(fd, b'\\xff' * 8)\n        except OSError: pass\n    return 1\n", function: "f",
			failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor that is not its own",
		},
		"a solution that makes up ops": {
			code: "import os\ndef f(x): os.write(6, b'\\0\\0\\0\\x0e{\"op\": \"done\"}')\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that answers without a value": {
			code: "import os\ndef f(x): os.write(6, b'\\0\\0\\0\\x10{\"op\": \"return\"}')\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that announces too much": {
			code: "import os\ndef f(x): os.write(6, b'\\xff' * 4 + b'{')\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that nests too deep": {
			code: "import os\ndef f(x): os.write(6, b'\\0\\1\\0\\0' + b'[' * 65536)\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that sends more than any value has": {
			code: fmt.Sprintf(crowd, `[' + b'{},' * 2_700_000 + b'{}]`), function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that nests many": {
			code: fmt.Sprintf(crowd, `[' + b'{"a":[[]]},' * 700_000 + b'{}]`), function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that changes many": {
			code: fmt.Sprintf(crowd, `0,"changed":{"0":[' + b'[],' * 2_700_000 + b'[]]}`), function: "f", failed: 1, check: "assert f(1) == 1", says: "the solution wrote to a descriptor",
		},
		"a solution that closes everything": {
			code: "import os\ndef f(x):\n    os.closerange(3, 20)\n    return 1\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "the process ended itself",
		},
		"large values": {
			code: "def f(x): return x\n", function: "f", passed: 1, check: "x = 'ab' * 2_500_000\nassert f(x) == x\nassert f(1) == 1\n",
		},
		"text that looks like many values": {
			code: "def f(x): return x\n", function: "f", passed: 1, check: "x = '{},' * 1_600_000\nassert f(x) == x\ny = list(range(300_000))\nassert f(y) == y\n",
		},
		"a check that does not wait": {
			code: "import time\ndef f(x):\n    time.sleep(x)\n    return x\n", function: "f", passed: 1, failed: 1,
			check: "import signal\ndef ring(*_): raise TimeoutError\nsignal.signal(signal.SIGALRM, ring)\ndef test_a():\n    signal.setitimer(signal.ITIMER_REAL, 0.2)\n    assert f(0.6) == 0.6\n" +
				"def test_b():\n    assert f(0) == 0\n",
			says: "test_a: ",
		},
		"an object without a value": {
			code: "class A:\n    pass\ndef f(x):\n    return A()\n", function: "f", failed: 1, check: "assert f(1) == 1", says: "f(1) returned an A, which is not data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			r := runTests(t, &job.Tests{Setup: c.setup, Code: c.code, Function: c.function, Check: c.check})
			text := strings.Join(r.Feedback, "\n")
			if r.Tests.Passed != c.passed || r.Tests.Failed != c.failed || r.Tests.Errors != c.errors {
				t.Errorf("%+v; want %d passed, %d failed, %d errors\n%s\n%s", r.Tests, c.passed, c.failed, c.errors, text, r.Stderr.Text)
			}
			if !strings.Contains(text, c.says) || c.failed+c.errors > 0 && text == "" {
				t.Errorf("feedback %q does not say %q", text, c.says)
			}
			want := job.Succeeded
			if c.failed > 0 {
				want = job.Failed
			}
			if c.errors > 0 {
				want = job.CheckError
			}
			if r.Outcome != want || (r.Tests.Score == nil) != (want == job.CheckError) {
				t.Errorf("outcome %s, want %s, score %v", r.Outcome, want, r.Tests.Score)
			}
		})
	}
}

func TestCases(t *testing.T) {
	t.Parallel()
	const code = `
import os, signal, time
state = []
def f(x, k=None):
    state.append(x)
    if x == "state": return len(state)
    if x == "exit": os._exit(0)
    if x == "sys.exit": raise SystemExit("bye")
    if x == "segv": os.kill(os.getpid(), signal.SIGSEGV)
    if x == "kill parent": os.kill(os.getppid(), 9); time.sleep(9)
    if x == "hang":
        while True: pass
    if x == "cycle":
        v = []; v.append(v); return v
    if x == "huge": return "x" * (100 << 20)
    if x == "object": return object()
    if x == "generator": return (i for i in [1])
    if x == "function": return f
    if x == "nan": return float("nan")
    if x == "surrogate": return "\ud800"
    if x == "raise": return {}["k"]
    if x == "deep": return f(x)
    if x == "print": print("out"); return 1
    if x == "none": return None
    return k if k is not None else x
`
	for name, c := range map[string]struct {
		c       string
		passed  bool
		outcome job.Outcome
		says    string
	}{
		"equal":                 {`{"args":[1],"expected":1}`, true, job.Succeeded, ""},
		"equal across numbers":  {`{"args":[1],"expected":1.0}`, true, job.Succeeded, ""},
		"keyword":               {`{"args":[1],"kwargs":{"k":{"$tuple":[1,"a"]}},"expected":{"$tuple":[1,"a"]}}`, true, job.Succeeded, ""},
		"expected type":         {`{"args":[1],"expected":1,"expected_type":"int"}`, true, job.Succeeded, ""},
		"other type":            {`{"args":[1],"expected":1.0,"expected_type":"float"}`, false, job.Failed, "which is an int, expected a float"},
		"type only":             {`{"args":[[1]],"expected_type":"list"}`, true, job.Succeeded, ""},
		"a list for a tuple":    {`{"args":[{"$tuple":[1]}],"expected":[1],"expected_type":"tuple"}`, true, job.Succeeded, ""},
		"a tuple is no list":    {`{"args":[{"$tuple":[1]}],"expected":[1]}`, false, job.Failed, "(a tuple is not a list)"},
		"a set":                 {`{"args":[{"$set":[1,2]}],"expected":[2,1],"expected_type":"set"}`, true, job.Succeeded, ""},
		"null":                  {`{"args":["none"],"expected":null}`, true, job.Succeeded, ""},
		"no return":             {`{"args":["none"],"expected":1}`, false, job.Failed, "is there a return on every path?"},
		"big":                   {`{"args":[123456789012345678901234567890],"expected":123456789012345678901234567890}`, true, job.Succeeded, ""},
		"state is not shared":   {`{"args":["state"],"expected":1}`, true, job.Succeeded, ""},
		"exception":             {`{"args":["raise"],"expected":1}`, false, job.Exception, `raised KeyError: 'k' at line`},
		"expected exception":    {`{"args":["raise"],"expected_exception":"KeyError"}`, true, job.Succeeded, ""},
		"its base":              {`{"args":["raise"],"expected_exception":"LookupError"}`, true, job.Succeeded, ""},
		"another exception":     {`{"args":["raise"],"expected_exception":"ValueError"}`, false, job.Failed, "expected ValueError"},
		"no exception":          {`{"args":[1],"expected_exception":"ValueError"}`, false, job.Failed, "expected it to raise ValueError"},
		"exit is no exception":  {`{"args":["exit"],"expected_exception":"SystemExit"}`, false, job.Failed, "ended itself with exit code 0"},
		"sys.exit":              {`{"args":["sys.exit"],"expected":1}`, false, job.Exception, "SystemExit: bye"},
		"exit":                  {`{"args":["exit"],"expected":null}`, false, job.Failed, "ended itself with exit code 0"},
		"crash":                 {`{"args":["segv"],"expected":1}`, false, job.Signaled, "SIGSEGV"},
		"hang":                  {`{"args":["hang"],"expected":1,"wall":"300ms"}`, false, job.TimedOut, "stopped after 300ms"},
		"recursion":             {`{"args":["deep"],"expected":1}`, false, job.Exception, "RecursionError"},
		"cycle":                 {`{"args":["cycle"],"expected":[]}`, false, job.Failed, "contains itself"},
		"huge":                  {`{"args":["huge"],"expected":""}`, false, job.Failed, "returned more than 8 MiB"},
		"object":                {`{"args":["object"],"expected":1}`, false, job.Failed, "an object is compared with nothing"},
		"generator":             {`{"args":["generator"],"expected":[1]}`, false, job.Failed, "a generator is compared with nothing"},
		"function":              {`{"args":["function"],"expected":1}`, false, job.Failed, "a function is compared with nothing"},
		"nan":                   {`{"args":["nan"],"expected":{"$float":"nan"}}`, true, job.Succeeded, ""},
		"not nan":               {`{"args":["nan"],"expected":1}`, false, job.Failed, "returned nan"},
		"surrogate":             {`{"args":["surrogate"],"expected":{"$str":"7aCA"}}`, true, job.Succeeded, ""},
		"too many arguments":    {`{"args":[1,2,3],"expected":1}`, false, job.Exception, "TypeError"},
		"an argument untagged":  {`{"args":[{"$nothing":1}],"expected":1}`, false, job.CheckError, "args[0]: not an encoded value"},
		"expectation untagged":  {`{"args":[1],"expected":{"$nothing":1}}`, false, job.CheckError, "not a tagged value"},
		"the parent is killed":  {`{"args":["kill parent"],"expected":1}`, false, job.Failed, "ended itself"},
		"after all that: equal": {`{"args":[2],"expected":2}`, true, job.Succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			spec := &job.Tests{Code: code, Function: "f"}
			// The case stands between two that must not be affected.
			for _, raw := range []string{`{"args":[0],"expected":0}`, c.c, `{"args":["state"],"expected":1}`} {
				var one job.Case
				if err := json.Unmarshal([]byte(raw), &one); err != nil {
					t.Fatal(err)
				}
				spec.Cases = append(spec.Cases, one)
			}
			r := runTests(t, spec)
			got := r.Tests.Cases[1]
			if got.Passed != c.passed || got.Outcome != c.outcome || !strings.Contains(got.Message, c.says) || !c.passed && got.Message == "" {
				t.Errorf("%+v, want %s saying %q", got, c.outcome, c.says)
			}
			if !r.Tests.Cases[0].Passed || !r.Tests.Cases[2].Passed {
				t.Errorf("the cases around it: %+v", r.Tests.Cases)
			}
		})
	}
}

// TestSolutionsThatCannotBeLoaded checks that an error in a solution's text is reported for every case, with one line
// of feedback.
func TestSolutionsThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, says string }{
		"syntax":          {"def f(x):\n    return (\n", "SyntaxError"},
		"indentation":     {"def f(x):\nreturn x\n", "IndentationError"},
		"import":          {"import nonesuch\ndef f(x): return x\n", "ModuleNotFoundError"},
		"raises":          {"1/0\ndef f(x): return x\n", "ZeroDivisionError: division by zero at line 1: 1/0"},
		"exits":           {"import os\nos._exit(3)\n", "exit code 3"},
		"sys.exit":        {"import sys\nsys.exit(0)\n", "SystemExit"},
		"missing":         {"def g(x): return x\n", "f is not defined"},
		"missing method":  {"class f:\n    pass\n", ""},
		"zero width":      {"def f(x):\u200b return x\n", "SyntaxError"},
		"reads its input": {"n = int(input())\ndef f(x): return x\n", "EOFError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &job.Tests{Code: c.code, Function: "f", Cases: []job.Case{
				{Args: []json.RawMessage{[]byte(`1`)}, Expected: []byte(`1`)}, {Args: []json.RawMessage{[]byte(`2`)}, Expected: []byte(`2`)}}}
			r := runTests(t, spec)
			if r.Tests.Passed != 0 || r.Tests.Total != 2 || len(r.Feedback) == 0 || !strings.Contains(r.Feedback[0], c.says) {
				t.Errorf("%d of %d passed: %q", r.Tests.Passed, r.Tests.Total, r.Feedback)
			}
		})
	}
	for name, code := range map[string]string{
		"a byte order mark": "\ufeffdef f(x): return x\n",
		"CRLF":              "def f(x):\r\n    y = '''a\r\nb'''\r\n    return x if len(y) == 3 else 0\r\n",
		"CR":                "def f(x):\r    return x\r",
		"a main guard":      "def f(x): return x\nif __name__ == '__main__':\n    print(f(int(input())))\n",
		"closed stdout":     "import sys\nsys.stdout.close()\ndef f(x): return x\n",
		"own names":         "list = dict = len = type = isinstance = None\nop = frame = 1\ndef f(x): return x\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runTests(t, &job.Tests{Code: code, Function: "f", Cases: []job.Case{{Args: []json.RawMessage{[]byte(`7`)}, Expected: []byte(`7`)}}})
			if r.Outcome != job.Succeeded {
				t.Errorf("%s: %q", r.Outcome, r.Feedback)
			}
		})
	}
}

func TestStdio(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code": "import sys, os\nn = int(input())\nif n == 3: sys.exit(4)\nif n == 4: 1/0\nif n == 5: os.kill(os.getpid(), 9)\nprint(n * 2 + 0.0000001, ' ')\n",
		"stdio": [
			{"stdin": "1\n", "stdout": "2\n", "compare": "floats"}, {"stdin": "1", "stdout": "2", "weight": 3}, {"stdin": "3", "stdout": ""},
			{"stdin": "4", "stdout": ""}, {"stdin": "x", "stdout": ""}, {"name": "last", "stdin": "2", "stdout": "4.0000001"},
			{"stdin": "hello", "stdout": "hello", "argv": ["cat"]}]}`)
	var outcomes []string
	for _, c := range r.Tests.Cases {
		outcomes = append(outcomes, string(c.Outcome))
	}
	if got := strings.Join(outcomes, " "); got != "succeeded failed failed failed failed succeeded succeeded" {
		t.Errorf("%s: %q", got, r.Feedback)
	}
	if *r.Tests.Score != 3./9 {
		t.Errorf("score %v", *r.Tests.Score)
	}
	for i, want := range []string{`stdio 2: line 1 of the output is "2.0000001", expected "2"`, "stdio 3: exit code 4", "ZeroDivisionError: division by zero", "ValueError"} {
		if !strings.Contains(r.Feedback[i], want) {
			t.Errorf("%q does not say %q", r.Feedback[i], want)
		}
	}
}

func TestWeightsAndStopping(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code":"def f(x): return x","function":"f","stop_on_failure":true,"cases":[
		{"args":[1],"expected":1,"weight":3},{"args":[2],"expected":1,"weight":0},{"name":"third","args":[3],"expected":3,"weight":1}],"check":"assert f(1) == 1"}`)
	if r.Tests.Passed != 1 || r.Tests.Failed != 3 || r.Tests.Total != 4 || *r.Tests.Score != 3./5 {
		t.Errorf("%+v", r.Tests)
	}
	if c := r.Tests.Cases[2]; c.Name != "third" || c.Outcome != job.OutcomeCanceled || c.Message == "" {
		t.Errorf("%+v", c)
	}
	if len(r.Feedback) != 1 {
		t.Errorf("feedback of what was not run: %q", r.Feedback)
	}
}

// TestHangsLeaveTimeForOthers checks that a case that hangs leaves time for the later ones, without limits of its
// own.
func TestHangsLeaveTimeForOthers(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code":"import time\ndef f(x):\n    while x == 1: time.sleep(0.1)\n    return x","function":"f","cases":[
		{"args":[0],"expected":0},{"args":[1],"expected":1},{"args":[2],"expected":2}],"check":"def test_a():\n    assert f(0) == 0\ndef test_b():\n    assert f(1) == 1\ndef test_c():\n    assert f(2) == 2\n"}`,
		func(p *policy.Policy) { p.Wall = job.Duration(12 * time.Second) })
	var outcomes []string
	for _, c := range r.Tests.Cases {
		outcomes = append(outcomes, c.Name+" "+string(c.Outcome))
	}
	for _, c := range r.Tests.Cases {
		if c.Limits == nil || c.Limits.Wall <= 0 || c.Limits.Wall > job.Duration(12*time.Second) {
			t.Errorf("%s ran with %+v", c.Name, c.Limits)
		}
	}
	if l := r.Tests.Cases[0].Limits; l != nil && (l.Wall < job.Duration(3*time.Second) || l.Wall > job.Duration(6*time.Second)) { // half the rest
		t.Errorf("the first ran with %v", l.Wall)
	}
	if got := strings.Join(outcomes, ", "); got != "case 1 succeeded, case 2 timed_out, case 3 succeeded, test_a succeeded, test_b timed_out, test_c succeeded" {
		t.Errorf("%s: %q", got, r.Feedback)
	}
}

// TestHangAtTheEnd checks that a solution that hangs until the time ends is named in the check's message.
func TestHangAtTheEnd(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code":"def f(x):\n    while x: pass\n","function":"f","check":"f(0)\nf(1)\n"}`, func(p *policy.Policy) { p.Wall = job.Duration(3 * time.Second) })
	want := job.CaseResult{Name: "check", Outcome: job.TimedOut, Message: tooSlow + " in candidate(1)"}
	if c := r.Tests.Cases; len(c) != 1 || c[0].Name != want.Name || c[0].Outcome != want.Outcome || c[0].Message != want.Message {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// TestFeedbackIsStable checks that the same mistake leads to the same lines in every run.
func TestFeedbackIsStable(t *testing.T) {
	t.Parallel()
	const tests = `{"code":"class A: pass\ndef f(x):\n    if x == 1: return A()\n    if x == 2: return {3, 1, 2}\n    raise ValueError(A.__name__)","function":"f",
		"cases":[{"args":[1],"expected":1},{"args":[2],"expected":1},{"args":[3],"expected":1}],"check":"def test_a():\n    assert f(2) == 1\ndef test_b():\n    assert f(1) == f(1)\n"}`
	first, second := run(t, tests), run(t, tests)
	if a, b := strings.Join(first.Feedback, "\n"), strings.Join(second.Feedback, "\n"); a != b || strings.Count(a, "\n") != 4 {
		t.Errorf("%s\n---\n%s", a, b)
	}
}

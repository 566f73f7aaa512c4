package grade

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

const nodes = `
class ListNode:
    def __init__(self, val=0, next=None):
        self.val, self.next = val, next
class Tree:
    def __init__(self, v, l=None, r=None): self.v, self.l, self.r, self.up = v, l, r, None
class Slots:
    __slots__ = ("a", "b")
`

// TestIdentity checks that objects that a check passes keep their identity, type and content at the solution and on
// the way back.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, check string }{
		"a linked cycle":            {"def f(h):\n    s = q = h\n    while q and q.next:\n        s, q = s.next, q.next.next\n        if s is q: return True\n    return False\n", "a = ListNode(1); b = ListNode(2); a.next = b; b.next = a\nassert f(a) is True and f(ListNode(1, ListNode(2))) is False\n"},
		"the node where it begins":  {"def f(h):\n    seen = []\n    while h:\n        if any(h is s for s in seen): return h\n        seen.append(h); h = h.next\n", "a = ListNode(1); b = ListNode(2); a.next = b; b.next = b\nassert f(a) is b\n"},
		"a doubly linked list":      {"def f(h):\n    while h.next: h = h.next\n    return h.prev.val\n", "a = ListNode(1); b = ListNode(2); a.next = b; b.prev = a; a.prev = None\nassert f(a) == 1\n"},
		"parents":                   {"def f(n): return n.up.up.v\n", "r = Tree(1); r.l = Tree(2); r.l.l = Tree(3); r.l.up = r; r.l.l.up = r.l\nassert f(r.l.l) == 1\n"},
		"a list in itself":          {"def f(x): return x[0] is x\n", "x = []; x.append(x)\nassert f(x) is True\n"},
		"a dict in itself":          {"def f(x):\n    x['n'] = 1\n    return x['me'] is x\n", "x = {}; x['me'] = x\nassert f(x) is True and x['n'] == 1 and x['me'] is x\n"},
		"a graph":                   {"def f(g):\n    out = {}\n    def copy(n):\n        if id(n) in out: return out[id(n)]\n        m = out[id(n)] = ListNode(n.val, [])\n        m.next = [copy(k) for k in n.next]\n        return m\n    return copy(g)\n", "a, b = ListNode(1, []), ListNode(2, []); a.next += [a, b]; b.next += [a]\nr = f(a)\nassert r is not a and r.val == 1 and r.next[0] is r and r.next[1].next[0] is r and r.next[1].val == 2\n"},
		"an argument twice":         {"def f(x):\n    x[0].append(2)\n    return x[1]\n", "l = [1]\nassert f([l, l]) == [1, 2] and f([l, l]) is l and l == [1, 2, 2]\n"},
		"two arguments":             {"def f(a, b):\n    a.append(1)\n    return a is b\n", "l = []\nassert f(l, l) is True and l == [1] and f(l, b=l) is True and f([], []) is False\n"},
		"rows of a grid":            {"def f(g):\n    g[0][0] = 5\n    return g\n", "g = [[0] * 2] * 2\nassert f(g) is g and g == [[5, 0], [5, 0]] and g[0] is g[1]\n"},
		"a shared tail":             {"def f(a, b):\n    seen = set()\n    while a: seen.add(id(a)); a = a.next\n    while b:\n        if id(b) in seen: return b\n        b = b.next\n", "t = ListNode(8, ListNode(9))\nassert f(ListNode(1, t), ListNode(2, ListNode(3, t))) is t\n"},
		"a node of another":         {"def f(root, p):\n    def has(n): return n is not None and (n is p or has(n.l) or has(n.r))\n    return has(root)\n", "x = Tree(3); r = Tree(1, Tree(2), x)\nassert f(r, x) is True and f(r, Tree(3)) is False\n"},
		"an object in a set":        {"def f(h):\n    seen = set()\n    while h is not None:\n        if h in seen: return h\n        seen.add(h); h = h.next\n", "a = ListNode(1); b = ListNode(2); a.next = b; b.next = a\nassert f(a) is a and f(ListNode(3)) is None\n"},
		"10,000 nodes":              {"def f(h):\n    n = 0\n    while h: n += 1; h.val += 1; h = h.next\n    return n\n", "h = None\nfor i in range(10000): h = ListNode(i, h)\nassert f(h) == 10000 and h.val == 10000 and h.next.val == 9999\n"},
		"10,000 nodes back":         {"def f(n):\n    h = None\n    for i in range(n): h = ListNode(i, h)\n    return h\n", "h = f(10000); n = 0\nwhile h: n += 1; h = h.next\nassert n == 10000\n"},
		"a reversed list":           {"def f(h):\n    p = None\n    while h: h.next, p, h = p, h, h.next\n    return p\n", "h = a = ListNode(0)\nfor i in range(1, 3000): a.next = ListNode(i); a = a.next\nr = f(h)\nassert r is a and h.next is None\nn = 0\nwhile r: n += 1; r = r.next\nassert n == 3000\n"},
		"a nest of 10,000":          {"def f(x):\n    d = 0\n    while x: x = x[0]; d += 1\n    return d\n", "x = []\nfor _ in range(10000): x = [x]\nassert f(x) == 10000\n"},
		"tuples of 3,000":           {"def f(x):\n    d = 0\n    while x: x = x[0]; d += 1\n    return (x, d)\n", "x = ()\nfor _ in range(3000): x = (x,)\nassert f(x) == ((), 3000)\n"},
		"across calls":              {"seen = []\ndef f(x):\n    seen.append(x)\n    return sum(s is x for s in seen)\n", "a, b = ListNode(1), [1]\nassert [f(a), f(b), f(a), f(b), f([1])] == [1, 1, 2, 2, 1]\n"},
		"changed between calls":     {"seen = []\ndef f(x):\n    seen.append(x)\n    return [seen[0], len(seen)]\n", "a = [1]\nf(a)\na.append(2)\nassert f(a) == [[1, 2], 2] and f(a)[0] is a\n"},
		"the same answer":           {"import functools\n@functools.lru_cache(None)\ndef f(x): return [x]\n", "assert f(1) is f(1) and f(1) is not f(2)\n"},
		"an answer that is passed":  {"made = []\ndef f(x=None):\n    if x is None:\n        made.append(ListNode(1))\n        return made[-1]\n    return x is made[-1]\n", "n = f()\nassert f(n) is True and f(ListNode(1)) is False\n"},
		"aliases in an answer":      {"def f():\n    a = [1]\n    return [a, a, (a,)]\n", "r = f()\nr[0].append(2)\nassert r == [[1, 2], [1, 2], ([1, 2],)] and r[2][0] is r[0]\n"},
		"an answer in itself":       {"def f():\n    a = []\n    a.append(a)\n    return a\n", "r = f()\nassert r[0] is r\n"},
		"the argument comes back":   {"def f(x): return x\n", "for x in [1], {'a': 1}, {1}, (1, []), bytearray(b'a'), ListNode(1), [[1]]:\n    assert f(x) is x\n"},
		"a part comes back":         {"def f(x): return [x[1], x[0]]\n", "a, b = [1], [2]\nr = f([a, b])\nassert r[0] is b and r[1] is a\n"},
		"changed by index":          {"def f(m):\n    m[0], m[1] = m[1], m[0]\n    m[0].append(9)\n", "a, b = [1], [2]\nm = [a, b]\nf(m)\nassert m[0] is b and m[1] is a and b == [2, 9]\n"},
		"changed and raised":        {"def f(m):\n    m[0][0] = 7\n    raise KeyError(1)\n", "a = [1]\ntry: f([a])\nexcept KeyError: pass\nassert a == [7]\n"},
		"a cycle that is changed":   {"def f(n):\n    n.next.next = None\n    n.next.val = [n]\n", "a = ListNode(1); b = ListNode(2); a.next = b; b.next = a\nf(a)\nassert b.next is None and b.val[0] is a and a.next is b\n"},
		"slots":                     {"def f(s):\n    s.b = s.a\n    s.a = 3\n    return s\n", "s = Slots(); s.a = s\nassert f(s) is s and s.a == 3 and s.b is s\n"},
		"a deque":                   {"def f(d):\n    d.appendleft(0)\n    return d\n", "import collections\nd = collections.deque([1, 2], maxlen=5)\nassert f(d) is d and list(d) == [0, 1, 2] and d.maxlen == 5\n"},
		"an ordered dict":           {"def f(d):\n    d.move_to_end('a')\n    return type(d).__name__, type(d)(d)\n", "import collections\nd = collections.OrderedDict(a=1, b=2)\nname, r = f(d)\nassert name == 'OrderedDict' and isinstance(r, collections.OrderedDict) and list(d) == ['b', 'a'] == list(r)\n"},
		"a default dict":            {"def f(d):\n    d['x'].append(1)\n    return d\n", "import collections\nd = collections.defaultdict(list)\nassert f(d) is d and d == {'x': [1]} and d['y'] == []\ne = collections.defaultdict(lambda: [7])\nf(e)\nassert e['x'] == [7, 1]\n"},
		"a counter":                 {"import collections\ndef f(x): return collections.Counter(x)\n", "assert f('aab').most_common(1) == [('a', 2)] and f('aab') == {'a': 2, 'b': 1}\n"},
		"an array":                  {"def f(a):\n    a.append(4)\n    return a\n", "import array\na = array.array('i', [1, 2])\nassert f(a) is a and a.tolist() == [1, 2, 4]\n"},
		"a byte array":              {"def f(a):\n    a[0] = 66\n    a += b'!'\n", "a = bytearray(b'a')\nf(a)\nassert a == b'B!'\n"},
		"a named tuple of its own":  {"def f(p): return p._replace(x=p.x + 1)\n", "import collections\nP = collections.namedtuple('P', 'x y')\nr = f(P(1, 2))\nassert r == (2, 2) and r.x == 2\n"},
		"a string file":             {"def f(s, o):\n    lines = list(s)\n    print(s.read(), file=o)\n    o.write('x')\n    return lines, hasattr(s, 'readline')\n", "import io\ns, o = io.StringIO('a\\nb\\n'), io.StringIO()\nassert f(s, o) == (['a\\n', 'b\\n'], True) and o.getvalue() == '\\nx' and s.tell() == 4\n"},
		"a bytes file":              {"import csv, io\ndef f(b):\n    rows = list(csv.reader(io.TextIOWrapper(b, 'utf-8')))\n    return rows\n", "import io\nb = io.BytesIO(b'..a,b\\n')\nb.seek(2)\nassert f(b) == [['a', 'b']]\n"},
		"a file that comes back":    {"import io\ndef f(): return io.StringIO('ab')\n", "assert f().read() == 'ab'\n"},
		"a mock":                    {"def f(db):\n    db.save(1)\n    with db.lock: db.rows[2] = db.load('k', n=1)\n    return 2\n", "from unittest.mock import MagicMock, Mock\nm = MagicMock()\nm.load.return_value = [5]\nassert candidate(m) == 2\nm.save.assert_called_once_with(1)\nm.load.assert_called_once_with('k', n=1)\nm.rows.__setitem__.assert_called_once_with(2, [5])\n"},
		"a side effect":             {"def f(get):\n    try: return get(1)\n    except KeyError: return get.retry(2)\n", "from unittest.mock import Mock\nm = Mock(side_effect=KeyError('x'))\nm.retry.return_value = 3\nassert candidate(m) == 3\nm.assert_called_once_with(1)\n"},
		"a callable class":          {"def f(g): return [g(1), g.scale, g.twice(3), len(g)]\n", "class G:\n    scale = 4\n    def __call__(self, x): return x * self.scale\n    def twice(self, x): return x * 2\n    def __len__(self): return 9\nassert candidate(G()) == [4, 4, 6, 9]\n"},
		"a stub of its own":         {"def f(clock):\n    clock.sleep(2)\n    return clock.now() + clock.offset\n", "class Clock:\n    offset = 1\n    def __init__(self): self.t = 5\n    def now(self): return self.t\n    def sleep(self, n): self.t += n\nc = Clock()\nassert candidate(c) == 8 and c.t == 7\n"},
		"a field of a stub":         {"def f(p):\n    p.x += 1\n    return p\n", "class P:\n    def __init__(self): self.x = 1\np = P()\nassert candidate(p) is p and p.x == 2\n"},
		"a context manager":         {"def f(m):\n    with m as x: return x + 1\n", "import contextlib\nlog = []\n@contextlib.contextmanager\ndef m():\n    log.append('in')\n    yield 4\n    log.append('out')\nassert candidate(m()) == 5 and log == ['in', 'out']\n"},
		"it suppresses":             {"def f(m):\n    with m: raise KeyError(1)\n    return 2\n", "import contextlib\nassert candidate(contextlib.suppress(KeyError)) == 2\n"},
		"iterators":                 {"def f(a, b): return [next(a), list(zip(a, b))]\n", "assert candidate(iter([1, 2, 3]), (c for c in 'xy')) == [1, [(2, 'x'), (3, 'y')]]\n"},
		"a match":                   {"def f(m): return m.group(1), m.span(), m.groupdict()\n", "import re\nassert candidate(re.match('(?P<a>b)c', 'bcd')) == ('b', (0, 2), {'a': 'b'})\n"},
		"a pattern":                 {"def f(p): return p.findall('a1b2')\n", "import re\nassert candidate(re.compile(r'\\d')) == ['1', '2']\n"},
		"a path":                    {"def f(p): return p.parent / 'c'\n", "import pathlib\nassert candidate(pathlib.Path('/a/b')) == pathlib.Path('/a/c')\n"},
		"types":                     {"def f(xs, t): return [x for x in xs if isinstance(x, t)] + [t]\n", "assert candidate([1, 'a'], int) == [1, int]\nassert candidate([ListNode(1), 2], ListNode)[0].val == 1\n"},
		"exceptions":                {"def f(e): return type(e).__name__, str(e), isinstance(e, ValueError)\n", "assert candidate(ValueError('x')) == ('ValueError', 'x', True)\n"},
		"a namespace":               {"def f(n):\n    n.b = n.a\n    return n\n", "import types\nn = types.SimpleNamespace(a=[1])\nassert candidate(n) is n and n.b is n.a\n"},
		"in callbacks":              {"def f(n, visit):\n    while n:\n        visit(n)\n        n = n.next\n", "seen = []\ndef visit(n):\n    seen.append(n)\n    n.val *= 2\na = ListNode(1, ListNode(2))\nassert candidate(a, visit) is None and seen[0] is a and seen[1] is a.next and a.next.val == 4\n"},
		"changed before a callback": {"def f(x, report):\n    x.sort()\n    report(x)\n    return x[0]\n", "got = []\nx = [2, 1]\ndef report(v):\n    got.append(list(v))\n    v[0] = 7\nassert candidate(x, report) == 7 and got == [[1, 2]] and x == [7, 2]\n"},
		"a value of a callback":     {"def f(get):\n    a, b = get(), get()\n    a.append(1)\n    return a is b\n", "l = []\nassert candidate(lambda: l) is True\n"},
		"many calls":                {"def f(x): return [x[0], len(x)]\n", "for i in range(300):\n    x = list(range(2000))\n    assert candidate(x) == [0, 2000] and candidate([x, x]) == [x, 2]\n"},
		"keys of objects":           {"def f(d): return {v: k for k, v in d.items()}\n", "assert candidate({(1, 2): 'a', frozenset([1]): 'b'}) == {'a': (1, 2), 'b': frozenset([1])}\n"},
		"a generator of nodes":      {"def f(h):\n    while h:\n        yield h\n        h = h.next\n", "a = ListNode(1); a.next = ListNode(2, a)\ng = candidate(a)\nassert next(g).next.next.val == 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runTests(t, &job.Tests{Setup: nodes, Code: c.code, Function: "f", Check: "def check(candidate):\n    f = candidate\n    " + strings.ReplaceAll(strings.TrimSpace(c.check), "\n", "\n    ") + "\n"})
			if r.Outcome != job.Succeeded {
				t.Errorf("%s: %q", r.Outcome, r.Feedback)
			}
		})
	}
}

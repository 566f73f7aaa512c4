package cheats

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Numpy arrays cross by value, both ways. The image has numpy; the machine that runs the other
// tests of checks need not.
func TestArraysCross(t *testing.T) {
	f := newFleet(t, policy.Cell)
	for name, c := range map[string]struct {
		code, check string
		passes      bool
	}{
		"numbers": {"import numpy as np\ndef f(x): return np.array(x) * 2.5",
			"import numpy as np\nr = f([1, 2])\nassert type(r) is np.ndarray and np.allclose(r, [2.5, 5]) and r.dtype == float\nr[0] = 1", true},
		"kinds": {"import numpy as np\ndef f(k): return np.ones((2, 3), k)",
			"import numpy as np\nfor k in '?bBhHiIlLqQefdFD':\n    assert f(k).dtype == np.dtype(k) and f(k).shape == (2, 3) and f(k).all()\nassert (f('U5') == '1').all()", true},
		"shapes": {"import numpy as np\ndef f(*s): return {'a': [np.zeros(s)]}",
			"for s in (), (0,), (0, 5), (2, 1, 3):\n    assert f(*s)['a'][0].shape == s", true},
		"an order of its own":  {"import numpy as np\ndef f(): return np.arange(6).reshape(2, 3).T", "assert f().tolist() == [[0, 3], [1, 4], [2, 5]]", true},
		"an argument, changed": {"def f(a):\n    a += 1\n    return a.sum()", "import numpy as np\na = np.arange(3)\nassert f(a) == 6 and a.tolist() == [1, 2, 3]", true},
		"wrong":                {"import numpy as np\ndef f(): return np.zeros(3)", "assert f().all()", false},
		"objects":              {"import numpy as np\nclass L:\n    def __eq__(s, o): return True\ndef f(): return np.array([L()], object)", "assert (f() == 1).all()", false},
		"a kind of array": {"import numpy as np\nclass A(np.ndarray):\n    def all(self): return True\n    def __eq__(self, o): return self\ndef f(): return np.zeros(3).view(A)",
			"assert (f() == 1).all()", false},
		"a class that says it is one": {"class ndarray:\n    dtype = type('', (), {'str': '<f8'})\n    shape, nbytes = (2,), 16\n    def tobytes(self): return bytes(16)\n    def all(self): return True\nndarray.__module__ = 'numpy'\ndef f(): return ndarray()",
			"assert f().all()", false},
		"more than it has": {"class ndarray:\n    dtype = type('', (), {'str': '<f8'})\n    shape, nbytes = (1 << 40,), 0\n    def tobytes(self): return b''\nndarray.__module__ = 'numpy'\ndef f(): return ndarray()",
			"assert len(f()) > 0", false},
		"something else": {"class ndarray:\n    dtype = type('', (), {'str': '|O8'})\n    shape, nbytes = (1,), 8\n    def tobytes(self): return bytes(8)\nndarray.__module__ = 'numpy'\ndef f(): return ndarray()",
			"assert len(f()) > 0", false},
		"text": {"import numpy as np\ndef f(k): return np.array(['ab', 'c'], k)", "assert f('U').tolist() == ['ab', 'c'] and f('S').tolist() == [b'ab', b'c'] and f('>U3').tolist() == ['ab', 'c']", true},
		"scalars": {"import numpy as np\ndef f(k): return np.array([1]).astype(k)[0]",
			"for k, want in {'U3': '1', 'S3': b'1', '?': True, 'f': 1.0, 'i': 1}.items():\n    r = f(k)\n    assert r == want and type(r) is type(want), (k, r, type(r))", true},
		"truth that is neither": {forged("|b1", "(1,)", `b"\2"`), "assert f()[0] in (False, True)", false},
		"text that is none":     {forged("<U1", "(1,)", `b"\xff\xff\xff\xff"`), "assert len(f()) == 1", false},
		"text, forged well":     {forged("<U1", "(1,)", `b"a\0\0\0"`), "assert f().tolist() == ['a']", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rep := f.grade(t, &job.Tests{Code: c.code, Function: "f", Check: c.check}, nil)
			if passed := rep.Outcome == job.Succeeded; passed != c.passes {
				t.Errorf("%s, want passed: %v\n%q", rep.Outcome, c.passes, rep.Feedback)
			}
		})
	}
}

// forged returns a solution whose class pretends to be an array.
func forged(elements, shape, data string) string {
	return "class ndarray:\n    dtype = type('', (), {'str': '" + elements + "'})\n    shape, nbytes = " + shape + ", 8\n" +
		"    def tobytes(self): return " + data + "\nndarray.__module__ = 'numpy'\ndef f(): return ndarray()"
}

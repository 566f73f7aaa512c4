package value

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// expressions are pairs of Python expressions. Python itself decides which of them are equal, and its codec encodes
// them.
const expressions = `
import datetime as dt
from collections import deque as deq
from decimal import Decimal as D
from fractions import Fraction as F
east = dt.timezone(dt.timedelta(hours=5))
values = [
    None, True, False, 0, 1, -1, 2, 10**40, -(10**40), 2**63, 2**64, 1 << 2000, 3 * 10**30,
    0.0, -0.0, 1.0, -1.0, 0.5, 1e40, 3e30, float(2**63), float(2**63) + 2048, float("inf"), float("-inf"),
    0j, 1+0j, 1j, 1.5+2j, True + 0j,
    "", "1", "a", "ä", "\U0001f600", "\ud800", "\udcff", "a\x00b", "$tuple",
    b"", b"a", b"\xff\x00", bytearray(b"a"), bytearray(),
    [], [1], [1.0], [True], [[1]], [None], ["a"], [b"a"], [1, 2], [2, 1],
    (), (1,), (1.0,), ((1,),), (1, 2), ([1],),
    set(), {1}, {1.0}, {True}, {1, 2}, {2, 1, 1.0}, {(1, 2)}, {frozenset({1})}, {"a", b"a"},
    frozenset(), frozenset({1}), frozenset({frozenset({1, 2})}), frozenset({frozenset({2.0, True})}),
    {}, {"a": 1}, {"a": 1.0}, {"b": 1}, {1: "a"}, {1.0: "a"}, {True: "a"}, {"1": "a"}, {(1,): [2]}, {"$tuple": [1]},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": {"b": {"c": [1, (2, {3})]}}}, {None: None}, {frozenset({1}): 2},
    range(3), range(0), range(0, 3, 1), __import__("fractions").Fraction(1, 3), __import__("decimal").Decimal("1.10"),
    __import__("datetime").date(2020, 1, 2), __import__("datetime").timedelta(1), __import__("collections").deque([1]),
    range(0, 4, 2), range(0, 3, 2), range(1, 0), range(5, 5), range(5, 0, -2), range(5, 1, -2), range(5, 6), range(5, 9, 7), range(-3, 3, 4),
    D("1.1"), D("0"), D("-0.00"), D("1E+2"), D(100), D("0.5"), D("Infinity"), D("1E+2000"), D("10E+1999"), D("-1E-2000"), D("-Infinity"), [D("NaN")],
    F(1, 2), F(3), F(10, 30), F(10**40), 100.0,
    dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, fold=1), dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc), dt.datetime(2020, 1, 2, 5, tzinfo=east),
    dt.datetime(2020, 1, 1, 19, 0, tzinfo=dt.timezone(dt.timedelta(hours=-5))), dt.datetime(2020, 3, 1, 1, tzinfo=east), dt.datetime(2020, 2, 29, 20, tzinfo=dt.timezone.utc),
    dt.time(1, 2), dt.time(1, 2, fold=1), dt.time(1, 2, tzinfo=dt.timezone.utc), dt.time(6, 2, tzinfo=east), dt.timezone.utc, east, dt.timezone(dt.timedelta(hours=5), "x"),
    dt.timedelta(0, 86400), dt.timedelta(hours=5), dt.timedelta(-1, 1), dt.date(2020, 2, 29), deq([1], 5), deq([1, 2]), deq([(1,)]),
    __import__("collections").defaultdict(int, a=2, b=1), __import__("collections").Counter("aab"), {"a": 2, "b": 1}, __import__("collections").OrderedDict(a=1),
]
`

// interpret runs a Python program with the guest's modules and decodes the JSON that it prints.
func interpret(t *testing.T, code string, out any) {
	t.Helper()
	cmd := exec.Command("python3", "-B", "-c", "import sys; sys.path.insert(0, '.')\nimport json, assay_wire\n"+code)
	cmd.Dir = filepath.Join("..", "..", "..", "..", "guest", "python")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}

// TestEqualIsPythonsEquality checks that a pair of values is equal here exactly if it is equal in Python.
func TestEqualIsPythonsEquality(t *testing.T) {
	t.Parallel()
	var said struct {
		Encoded []json.RawMessage
		Equal   [][]bool
		Reprs   []string
	}
	interpret(t, expressions+`
codec = assay_wire.Codec(lambda v: {"$other": [type(v).__name__, repr(v)]}, None)
print(json.dumps({
    "Encoded": [codec.encode(v) for v in values],
    "Equal": [[bool(a == b) for b in values] for a in values],
    "Reprs": [ascii(v) for v in values],
}))`, &said)
	var values []Value
	for i, raw := range said.Encoded {
		v, err := Decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", said.Reprs[i], err)
		}
		values = append(values, v)
	}
	for i, a := range values {
		for j, b := range values {
			want := said.Equal[i][j]
			if got := Equal(a, b); got != want {
				t.Errorf("Equal(%s, %s) is %v, python says %v", said.Reprs[i], said.Reprs[j], got, want)
			}
			if !unhashable(a) && !unhashable(b) && (digestOf(a) == digestOf(b)) != want {
				t.Errorf("digests of %s and %s: equal values have equal ones, and others have not", said.Reprs[i], said.Reprs[j])
			}
		}
	}
}

// unhashable reports whether v cannot be a member of a set.
func unhashable(v Value) bool {
	switch v.Kind {
	case List, Dict, Set, ByteArray, Other:
		return true
	}
	for _, item := range v.items {
		if unhashable(item) {
			return true
		}
	}
	return false
}

// TestOthersEqualNothing checks that a value that is not plain data equals no value, even if both look the same.
func TestOthersEqualNothing(t *testing.T) {
	t.Parallel()
	var encoded []json.RawMessage
	interpret(t, `
class Int(int):
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 1
class Str(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__
class List(list):
    __eq__ = lambda self, other: True
class Any:
    __eq__ = lambda self, other: True
    __class__ = property(lambda self: int)
    __repr__ = lambda self: "1"
cycle = []
cycle.append(cycle)
codec = assay_wire.Codec(lambda v: {"$other": [assay_wire.type_name(type(v)), assay_wire.show(v)]}, None)
print(json.dumps([codec.encode(v) for v in [Int(1), Str("a"), List([1]), Any(), object(), len, int, cycle, (i for i in "a")]]))`, &encoded)
	plain := []string{`1`, `"a"`, `[1]`, `null`, `true`, `{}`, `[[]]`, `{"$other":["int","1"]}`}
	for _, raw := range encoded {
		v, err := Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plain {
			want, err := Decode([]byte(p))
			if err != nil {
				t.Fatal(err)
			}
			if Equal(v, want) || Equal(want, v) || Equal(v, v) {
				t.Errorf("%s equals %s", raw, p)
			}
		}
		if v.Kind == Other && (v.Is("int") || v.Is("str") || v.Is("list")) {
			t.Errorf("%s passes for a plain type", raw)
		}
	}
}

// TestEncodingIsLossless checks that Python decodes its own encoding to the same value.
func TestEncodingIsLossless(t *testing.T) {
	t.Parallel()
	var lost []string
	interpret(t, expressions+`
import datetime, math
codec = assay_wire.Codec(lambda v: {"$other": ["?", "?"]}, None)
def same(a, b):
    if type(a) is not type(b) and type(a).__name__ not in ("Counter", "OrderedDict", "defaultdict"):
        return False
    return repr(a) == repr(b) or a == b
values += [float("nan"), {float("inf"): -0.0}, [[[]]] * 3]
print(json.dumps([ascii(v) for v in values if not same(v, codec.decode(json.loads(json.dumps(codec.encode(v)))))]))`, &lost)
	if len(lost) > 0 {
		t.Errorf("lost: %s", lost)
	}
}

func TestEncoderRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	var said []string
	interpret(t, `
def shared():
    v = [1]
    for _ in range(60): v = [v, v]
    return v
def deep():
    v = []
    for _ in range(10**6): v = [v]
    return v
codec = assay_wire.Codec(lambda v: {"$other": ["?", "?"]}, None)
out = []
for v in ["x" * 10**8, b"x" * 10**8, list(range(10**6)), shared(), 1 << 10**7, ["x" * 10**6] * 100]:
    try: codec.encode(v); out.append("fits")
    except assay_wire.TooLarge as e: out.append("too large")
out.append("nested deeper" if "nested deeper" in json.dumps(codec.encode(deep())) else "?")
print(json.dumps(out))`, &said)
	if got := strings.Join(said, ","); got != strings.Repeat("too large,", 6)+"nested deeper" {
		t.Error(got)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"nothing":           ``,
		"two values":        `1 2`,
		"an unknown tag":    `{"$any": []}`,
		"a reference":       `{"$ref": [1, "object", "X"]}`,
		"a back reference":  `{"$back": 1}`,
		"an object":         `{"$obj": ["X", []]}`,
		"a bad tuple":       `{"$tuple": 1}`,
		"a bad dict":        `{"$dict": [[1]]}`,
		"a dict of nothing": `{"$dict": "a"}`,
		"a bad int":         `{"$int": "x"}`,
		"bad base64":        `{"$bytes": "?"}`,
		"a bad float":       `{"$float": "1"}`,
		"a bad complex":     `{"$complex": [1]}`,
		"deep lists":        strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"deep tags":         strings.Repeat(`{"$tuple":[`, 200) + strings.Repeat("]}", 200),
		"many values":       "[" + strings.Repeat("0,", maxNodes) + "0]",
		"a long int":        strings.Repeat("9", 1<<20),
		"cut short":         `[1, {"a": `,
		"nan":               `NaN`,
	} {
		if v, err := Decode([]byte(raw)); err == nil {
			t.Errorf("%s: %.100q is %+v", name, raw, v)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`1`, `-0.0`, `1e400`, `"a"`, `[1,[2,{"a":null}]]`, `{"$tuple":[1]}`, `{"$dict":[[[1],2]]}`, `{"$set":[1,1.0,{"$frozenset":[]}]}`,
		`{"$complex":[1,2.5]}`, `{"$int":"0xff"}`, `{"$std":["fractions.Fraction",["1/3"]]}`, `{"$other":["X","r"]}`, `{"$str":"7aCA"}`,
		`{"$bytes":"/w=="}`, `{"$float":"nan"}`, `{"a":1,"a":2}`, `{"$a":1,"$b":2}`,
	} {
		f.Add([]byte(s), []byte(`1`))
	}
	f.Add([]byte(`{"$":1,"$":1}`), []byte(`{"$":1,"":0}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		v, err := Decode(a)
		if err != nil {
			return
		}
		if s := Repr(v); len(s) > MaxRepr+8 {
			t.Errorf("a repr of %d bytes", len(s))
		}
		w, err := Decode(b)
		if err != nil {
			return
		}
		if Equal(v, w) != Equal(w, v) {
			t.Errorf("Equal(%s, %s) depends on the order", a, b)
		}
	})
}

// TestKeysAreMetOnce checks that a dict with a repeated key equals no value. A solution that writes raw frames can
// send one.
func TestKeysAreMetOnce(t *testing.T) {
	t.Parallel()
	for _, twice := range []string{`{"a":1,"a":1}`, `{"$dict":[["a",1],["a",1]]}`, `{"$dict":[[1,1],[1.0,1]]}`} {
		for _, once := range []string{`{"a":1,"b":2}`, `{"a":1,"a":1}`, `{"$dict":[[1,1],[2,2]]}`} {
			v, err := Decode([]byte(twice))
			w, err2 := Decode([]byte(once))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if Equal(v, w) || Equal(w, v) {
				t.Errorf("%s is equal to %s", twice, once)
			}
		}
	}
}

// TestNestedSetsAreCheapToCompare checks that a comparison takes time in proportion to the values.
func TestNestedSetsAreCheapToCompare(t *testing.T) {
	t.Parallel()
	raw := `1`
	for range 17 {
		raw = `{"$frozenset":[` + raw + `,` + raw + `]}`
	}
	v, err := Decode([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if !Equal(v, v) {
		t.Error("a set does not equal itself")
	}
}

func TestRepr(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`null`: "None", `true`: "True", `-3`: "-3", `1.0`: "1.0", `1e22`: "1e+22", `0.00001`: "1e-05", `"it's"`: `"it's"`, `"a\nb"`: `'a\nb'`,
		`[1,"a"]`: `[1, 'a']`, `{"$tuple":[1]}`: "(1,)", `{"$tuple":[]}`: "()", `{"$set":[]}`: "set()", `{"$set":[1]}`: "{1}",
		`{"$frozenset":[1]}`: "frozenset({1})", `{"a":{"b":1}}`: "{'a': {'b': 1}}", `{"$bytes":"/wA="}`: `b'\xff\x00'`,
		`{"$float":"nan"}`: "nan", `{"$float":"-inf"}`: "-inf", `"ä"`: "'ä'",
	} {
		v, err := Decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := Repr(v); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

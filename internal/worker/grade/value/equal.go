package value

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// Equal reports whether a == b in Python: 1 == 1.0 == True, (1,) != [1], sets and dicts in any
// order. One exception: a nan equals a nan, so that a case can expect one. A value of kind Other
// equals nothing, not even itself.
func Equal(a, b Value) bool {
	if a.isNumber() || b.isNumber() {
		return a.isNumber() && b.isNumber() && equalNumbers(a, b)
	}
	switch a.Kind {
	case None:
		return b.Kind == None
	case Str:
		return b.Kind == Str && a.Text == b.Text
	case Bytes, ByteArray:
		return (b.Kind == Bytes || b.Kind == ByteArray) && a.Text == b.Text
	case List, Tuple:
		return a.Kind == b.Kind && equalItems(a.items, b.items)
	case Std:
		return b.Kind == Std && a.Text == b.Text && equalItems(a.items, b.items)
	case Set, FrozenSet:
		return (b.Kind == Set || b.Kind == FrozenSet) && slices.Equal(members(a.items), members(b.items))
	case Dict:
		return b.Kind == Dict && equalDicts(a, b)
	}
	return false
}

func (v Value) isNumber() bool {
	return v.Kind == Bool || v.Kind == Int || v.Kind == Float || v.Kind == Complex || v.number != nil || v.Kind == Std && v.real != 0
}

func equalNumbers(a, b Value) bool {
	if a.Kind == Complex || b.Kind == Complex {
		return equalNumbers(a.part(0), b.part(0)) && equalNumbers(a.part(1), b.part(1))
	}
	if a.whole != nil && b.whole != nil {
		return a.whole.Cmp(b.whole) == 0
	}
	if a.number != nil || b.number != nil {
		x, y := a.rat(), b.rat()
		return x != nil && y != nil && x.Cmp(y) == 0
	}
	if a.whole == nil && b.whole == nil {
		return a.real == b.real || math.IsNaN(a.real) && math.IsNaN(b.real)
	}
	if a.whole == nil {
		a, b = b, a
	}
	// An int and a float are equal only if they are exactly the same number.
	if math.IsNaN(b.real) || math.IsInf(b.real, 0) {
		return false
	}
	whole, accuracy := big.NewFloat(b.real).Int(nil)
	return accuracy == big.Exact && whole.Cmp(a.whole) == 0
}

// rat returns a real number exactly, or nil for nan and infinity.
func (v Value) rat() *big.Rat {
	switch {
	case v.number != nil:
		return v.number
	case v.whole != nil:
		return new(big.Rat).SetInt(v.whole)
	}
	return new(big.Rat).SetFloat64(v.real)
}

// part returns the real (0) or imaginary (1) part of a number.
func (v Value) part(i int) Value {
	switch {
	case v.Kind == Complex && i == 0:
		return Value{Kind: Float, real: v.real}
	case v.Kind == Complex:
		return Value{Kind: Float, real: v.imag}
	case i == 0:
		return v
	}
	return Value{Kind: Int, whole: new(big.Int)}
}

func equalItems(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// HasItemsOf reports whether v has the same items as another value in the same order, regardless of
// their types.
func (v Value) HasItemsOf(o Value) bool { return v.items != nil && equalItems(v.items, o.items) }

func equalDicts(a, b Value) bool {
	if len(a.pairs) != len(b.pairs) {
		return false
	}
	index := make(map[digest]Value, len(b.pairs))
	for _, p := range b.pairs {
		index[digestOf(p[0])] = p[1]
	}
	if len(index) != len(b.pairs) { // a dict has no duplicate keys
		return false
	}
	for _, p := range a.pairs {
		key := digestOf(p[0])
		if v, ok := index[key]; !ok || !Equal(p[1], v) {
			return false
		}
		delete(index, key) // likewise on this side: each key of b matches once
	}
	return true
}

// Is reports whether a value is of the type in a test. An object whose class is merely named int is
// not an int.
func (v Value) Is(name string) bool {
	name = strings.TrimPrefix(name, "builtins.")
	switch v.Kind {
	case Other:
		return v.Text == name && !plainKinds[Kind(name)]
	case Std:
		_, short, _ := strings.Cut(v.Text, ".")
		return v.Text == name || short == name
	case None:
		return name == "None" || name == string(None)
	}
	return string(v.Kind) == name
}

var plainKinds = map[Kind]bool{
	None: true, Bool: true, Int: true, Float: true, Complex: true, Str: true, Bytes: true,
	ByteArray: true, List: true, Tuple: true, Set: true, FrozenSet: true, Dict: true,
	"None": true, "Fraction": true, "Decimal": true, "date": true, "time": true, "datetime": true, "timedelta": true,
	"range": true, "deque": true,
}

// TypeName returns the type of a value for people.
func (v Value) TypeName() string {
	switch v.Kind {
	case Other:
		return v.Text
	case Std:
		_, short, _ := strings.Cut(v.Text, ".")
		return short
	}
	return string(v.Kind)
}

package grade

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// equal says whether a == b in python: 1 == 1.0 == True, (1,) != [1], sets and
// dicts in any order. It departs in one point: a nan equals a nan, because a
// case that expects one could not be passed otherwise. What is not a plain value
// equals nothing, itself included.
func equal(a, b value) bool {
	if a.isNumber() || b.isNumber() {
		return a.isNumber() && b.isNumber() && equalNumbers(a, b)
	}
	switch a.kind {
	case kindNone:
		return b.kind == kindNone
	case kindStr:
		return b.kind == kindStr && a.text == b.text
	case kindBytes, kindByteArray:
		return (b.kind == kindBytes || b.kind == kindByteArray) && a.text == b.text
	case kindList, kindTuple:
		return a.kind == b.kind && equalItems(a.items, b.items)
	case kindStd:
		return b.kind == kindStd && a.text == b.text && equalItems(a.items, b.items)
	case kindSet, kindFrozenSet:
		return (b.kind == kindSet || b.kind == kindFrozenSet) && slices.Equal(members(a.items), members(b.items))
	case kindDict:
		return b.kind == kindDict && equalDicts(a, b)
	}
	return false
}

func (v value) isNumber() bool {
	return v.kind == kindBool || v.kind == kindInt || v.kind == kindFloat || v.kind == kindComplex
}

func equalNumbers(a, b value) bool {
	if a.kind == kindComplex || b.kind == kindComplex {
		return equalNumbers(a.part(0), b.part(0)) && equalNumbers(a.part(1), b.part(1))
	}
	if a.whole != nil && b.whole != nil {
		return a.whole.Cmp(b.whole) == 0
	}
	if a.whole == nil && b.whole == nil {
		return a.real == b.real || math.IsNaN(a.real) && math.IsNaN(b.real)
	}
	if a.whole == nil {
		a, b = b, a
	}
	// An int and a float are equal if they are the same number, exactly.
	if math.IsNaN(b.real) || math.IsInf(b.real, 0) {
		return false
	}
	whole, accuracy := big.NewFloat(b.real).Int(nil)
	return accuracy == big.Exact && whole.Cmp(a.whole) == 0
}

// part returns the real (0) or imaginary (1) part of a number.
func (v value) part(i int) value {
	switch {
	case v.kind == kindComplex && i == 0:
		return value{kind: kindFloat, real: v.real}
	case v.kind == kindComplex:
		return value{kind: kindFloat, real: v.imag}
	case i == 0:
		return v
	}
	return value{kind: kindInt, whole: new(big.Int)}
}

func equalItems(a, b []value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalDicts(a, b value) bool {
	if len(a.pairs) != len(b.pairs) {
		return false
	}
	index := make(map[digest]value, len(b.pairs))
	for _, p := range b.pairs {
		index[digestOf(p[0])] = p[1]
	}
	if len(index) != len(b.pairs) { // the same key twice is no dict
		return false
	}
	for _, p := range a.pairs {
		key := digestOf(p[0])
		if v, ok := index[key]; !ok || !equal(p[1], v) {
			return false
		}
		delete(index, key) // nor is it on this side: each key of b is met once
	}
	return true
}

// isType says whether a value is of the type that a test author named. An object
// that only calls itself int is none.
func (v value) isType(name string) bool {
	name = strings.TrimPrefix(name, "builtins.")
	switch v.kind {
	case kindOther:
		return v.text == name && !plainKinds[kind(name)]
	case kindStd:
		_, short, _ := strings.Cut(v.text, ".")
		return v.text == name || short == name
	case kindNone:
		return name == "None" || name == string(kindNone)
	}
	return string(v.kind) == name
}

var plainKinds = map[kind]bool{
	kindNone: true, kindBool: true, kindInt: true, kindFloat: true, kindComplex: true, kindStr: true, kindBytes: true,
	kindByteArray: true, kindList: true, kindTuple: true, kindSet: true, kindFrozenSet: true, kindDict: true,
	"None": true, "Fraction": true, "Decimal": true, "date": true, "time": true, "datetime": true, "timedelta": true,
	"range": true, "deque": true,
}

// typeName is the type of a value, for people.
func (v value) typeName() string {
	switch v.kind {
	case kindOther:
		return v.text
	case kindStd:
		_, short, _ := strings.Cut(v.text, ".")
		return short
	}
	return string(v.kind)
}

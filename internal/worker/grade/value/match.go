package value

import (
	"math"

	"github.com/assay-run/assay/pkg/job"
)

// Matches reports whether a value matches the expected one by the rule of a case. Without
// tolerance, MatchPython is Equal. MatchJSON treats tuples as lists and compares keys of dicts as
// JSON text. Tolerance applies to pairs of real numbers with at least one float, outside of sets
// and keys.
func Matches(got, want Value, m job.Matching) bool {
	if m.Match != job.MatchJSON && m.Larger == 0 && m.Absolute == 0 && m.Relative == 0 {
		return Equal(got, want)
	}
	return (&matcher{m, m.Match == job.MatchJSON}).equal(got, want)
}

type matcher struct {
	job.Matching
	json bool
}

func (m *matcher) equal(got, want Value) bool {
	switch {
	case got.isNumber() && want.isNumber():
		return equalNumbers(got, want) || m.near(got.part(0), want.part(0)) && m.near(got.part(1), want.part(1))
	case got.isSequence() && want.isSequence():
		return (m.json || got.Kind == want.Kind) && m.equalItems(got.items, want.items)
	case got.Kind == Dict && want.Kind == Dict:
		return m.equalDicts(got, want)
	}
	return Equal(got, want)
}

func (v Value) isSequence() bool { return v.Kind == List || v.Kind == Tuple }

func (m *matcher) equalItems(got, want []Value) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !m.equal(got[i], want[i]) {
			return false
		}
	}
	return true
}

func (m *matcher) equalDicts(got, want Value) bool {
	if len(got.pairs) != len(want.pairs) {
		return false
	}
	index := make(map[digest]Value, len(want.pairs))
	for _, p := range want.pairs {
		index[m.key(p[0])] = p[1]
	}
	if len(index) != len(want.pairs) { // two keys have the same text
		return false
	}
	for _, p := range got.pairs {
		key := m.key(p[0])
		if v, ok := index[key]; !ok || !m.equal(p[1], v) {
			return false
		}
		delete(index, key)
	}
	return true
}

// key returns the digest of a key or, in JSON mode, of its JSON text if it has one.
func (m *matcher) key(k Value) digest {
	if m.json {
		switch {
		case k.Kind == None:
			k = Value{Kind: Str, Text: "null"}
		case k.Kind == Bool && k.whole.Sign() == 0:
			k = Value{Kind: Str, Text: "false"}
		case k.Kind == Bool:
			k = Value{Kind: Str, Text: "true"}
		case k.Kind == Int && k.whole.BitLen() <= 4096:
			k = Value{Kind: Str, Text: k.whole.String()}
		case k.Kind == Float:
			k = Value{Kind: Str, Text: floatText(k.real)}
		}
	}
	return digestOf(k)
}

// near reports whether two real numbers differ by at most the tolerance. Two ints are compared
// exactly.
func (m *matcher) near(got, want Value) bool {
	if equalNumbers(got, want) {
		return true
	}
	if got.whole != nil && want.whole != nil {
		return false
	}
	a, b := got.approximate(), want.approximate()
	if math.IsNaN(a) || math.IsNaN(b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return false
	}
	off, size := math.Abs(a-b), math.Abs(b)
	return off <= m.Larger*max(1, size) || off <= m.Absolute || off <= m.Relative*size
}

// approximate returns the float nearest to a real number.
func (v Value) approximate() float64 {
	if r := v.rat(); r != nil {
		f, _ := r.Float64()
		return f
	}
	return v.real
}

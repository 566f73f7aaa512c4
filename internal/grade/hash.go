package grade

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/big"
	"math/rand/v2"
)

// seed is drawn anew by every process: whoever chooses values cannot choose
// collisions.
var seed = maphash.MakeSeed()

// hash is the same for values that are equal and can be members of a set. What
// cannot be a member, or equals nothing, has a different hash each time.
func hash(v value) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	switch v.kind {
	case kindNone:
		_ = h.WriteByte('N')
	case kindBool, kindInt, kindFloat, kindComplex:
		hashNumber(&h, v.part(0))
		if v.kind == kindComplex && v.imag != 0 {
			hashNumber(&h, v.part(1))
		}
	case kindStr:
		_, _ = h.WriteString("s" + v.text)
	case kindBytes:
		_, _ = h.WriteString("b" + v.text)
	case kindTuple, kindStd:
		_, _ = h.WriteString("t" + v.text)
		for _, item := range v.items {
			hashPart(&h, hash(item))
		}
	case kindFrozenSet:
		most := uint64(0) // in any order, and a member twice is a member
		for _, item := range v.items {
			most = max(most, hash(item))
		}
		hashPart(&h, most)
	default:
		return rand.Uint64()
	}
	return h.Sum64()
}

func hashNumber(h *maphash.Hash, v value) {
	whole := v.whole
	if whole == nil && !math.IsNaN(v.real) && !math.IsInf(v.real, 0) && v.real == math.Trunc(v.real) {
		whole, _ = big.NewFloat(v.real).Int(nil)
	}
	switch {
	case whole != nil:
		_ = h.WriteByte('i')
		_ = h.WriteByte(byte(whole.Sign()))
		_, _ = h.Write(whole.Bytes())
	case math.IsNaN(v.real):
		_ = h.WriteByte('n')
	default:
		hashPart(h, math.Float64bits(v.real))
	}
}

func hashPart(h *maphash.Hash, part uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], part)
	_, _ = h.Write(b[:])
}

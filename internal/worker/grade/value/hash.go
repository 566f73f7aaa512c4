package value

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
)

// digest is equal for equal, hashable values and different for others. Values that are unhashable
// or equal nothing get a unique digest. It takes time proportional to the value's size for any
// nesting. It has 128 bits with two random seeds per process, so that solutions cannot choose
// collisions.
type digest [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// digester hashes under both seeds.
type digester [2]maphash.Hash

func (d *digester) write(kind byte, parts ...[]byte) {
	for i := range d {
		_ = d[i].WriteByte(kind)
		for _, p := range parts {
			_, _ = d[i].Write(p)
		}
	}
}

func (d *digester) add(part digest) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], part[0])
	binary.LittleEndian.PutUint64(b[8:], part[1])
	d.write('d', b[:])
}

func digestOf(v Value) digest {
	var d digester
	for i := range d {
		d[i].SetSeed(seeds[i])
	}
	kind := v.Kind
	if kind == Std && v.isNumber() {
		kind = Float
	}
	switch kind {
	case None:
		d.write('N')
	case Bool, Int, Float, Complex:
		d.number(v.part(0))
		if v.Kind == Complex && v.imag != 0 {
			d.number(v.part(1))
		}
	case Str:
		d.write('s', []byte(v.Text))
	case Bytes:
		d.write('b', []byte(v.Text))
	case Tuple, Std:
		d.write('t', []byte(v.Text))
		for _, item := range v.items {
			d.add(digestOf(item))
		}
	case FrozenSet:
		d.write('f')
		for _, m := range members(v.items) {
			d.add(m)
		}
	default:
		return digest{rand.Uint64(), rand.Uint64()}
	}
	return digest{d[0].Sum64(), d[1].Sum64()}
}

// members returns the sorted, distinct digests of a set's members.
func members(items []Value) []digest {
	all := make([]digest, 0, len(items))
	for _, item := range items {
		all = append(all, digestOf(item))
	}
	slices.SortFunc(all, func(a, b digest) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(all)
}

// rat hashes a number as the equal int or float, if there is one.
func (d *digester) rat(n *big.Rat) {
	if n.IsInt() {
		d.number(Value{Kind: Int, whole: n.Num()})
		return
	}
	if f, exact := n.Float64(); exact {
		d.number(Value{Kind: Float, real: f})
		return
	}
	d.write('q', []byte(n.String()))
}

func (d *digester) number(v Value) {
	if v.number != nil {
		d.rat(v.number)
		return
	}
	whole := v.whole
	if whole == nil && v.real == math.Trunc(v.real) && !math.IsInf(v.real, 0) {
		whole, _ = big.NewFloat(v.real).Int(nil)
	}
	switch {
	case whole != nil:
		d.write('i', []byte{byte(whole.Sign())}, whole.Bytes())
	case math.IsNaN(v.real):
		d.write('n')
	default:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v.real))
		d.write('r', b[:])
	}
}

package grade

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/assay-run/assay/internal/boundedjson"
)

// What a value may be at most: one that was sent by an enemy must not cost the
// worker more than it cost the enemy.
const (
	maxNodes   = 500_000
	maxDepth   = 160
	maxIntBits = 1 << 20
)

// kind is the exact python type of a value.
type kind string

const (
	kindNone      kind = "NoneType"
	kindBool      kind = "bool"
	kindInt       kind = "int"
	kindFloat     kind = "float"
	kindComplex   kind = "complex"
	kindStr       kind = "str"
	kindBytes     kind = "bytes"
	kindByteArray kind = "bytearray"
	kindList      kind = "list"
	kindTuple     kind = "tuple"
	kindSet       kind = "set"
	kindFrozenSet kind = "frozenset"
	kindDict      kind = "dict"
	kindStd       kind = "std"   // an object of a well-known type, by its arguments
	kindOther     kind = "other" // anything else
)

// value is a decoded python value.
type value struct {
	kind  kind
	whole *big.Int   // bool, int
	real  float64    // float, complex
	imag  float64    // complex
	text  string     // str (UTF-8, lone surrogates as three bytes), bytes, bytearray; type of std and other
	repr  string     // other
	items []value    // list, tuple, set, frozenset, arguments of std
	pairs [][2]value // dict
}

var errValue = errors.New("not an encoded value")

// decode reads one encoded value, strictly: the bytes may come from an enemy.
func decode(raw []byte) (v value, err error) {
	n, err := boundedjson.Count(raw, boundedjson.Limits{Values: 4 * maxNodes, Depth: 2 * maxDepth})
	if err != nil {
		return value{}, fmt.Errorf("%w: %w", errValue, err)
	}
	boundedjson.Build(raw, n, func() { v, err = build(raw) })
	return v, err
}

func build(raw []byte) (value, error) {
	d := &decoder{nodes: maxNodes}
	d.json = json.NewDecoder(bytes.NewReader(raw))
	d.json.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return value{}, fmt.Errorf("%w: %w", errValue, err)
	}
	if _, err := d.json.Token(); err != io.EOF {
		return value{}, fmt.Errorf("%w: something follows it", errValue)
	}
	return v, nil
}

type decoder struct {
	json  *json.Decoder
	nodes int
}

func (d *decoder) value(depth int) (value, error) {
	t, err := d.json.Token()
	if err != nil {
		return value{}, err
	}
	return d.from(t, depth)
}

func (d *decoder) from(t json.Token, depth int) (value, error) {
	if d.nodes--; d.nodes < 0 {
		return value{}, fmt.Errorf("%w: more than %d values", boundedjson.ErrLimit, maxNodes)
	}
	if depth > maxDepth {
		return value{}, fmt.Errorf("%w: nested deeper than %d", boundedjson.ErrLimit, maxDepth)
	}
	switch t := t.(type) {
	case nil:
		return value{kind: kindNone}, nil
	case bool:
		v := value{kind: kindBool, whole: new(big.Int)}
		if t {
			v.whole.SetInt64(1)
		}
		return v, nil
	case string:
		return value{kind: kindStr, text: t}, nil
	case json.Number:
		return number(string(t))
	case json.Delim:
		if t == '[' {
			items, err := d.items(depth)
			return value{kind: kindList, items: items}, err
		}
		return d.object(depth)
	}
	return value{}, fmt.Errorf("a %T", t)
}

// items reads the rest of a list, whose [ was read.
func (d *decoder) items(depth int) (items []value, err error) {
	for d.json.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err = d.json.Token()
	return items, err
}

// object reads the rest of a dict or of a tagged value, whose { was read.
func (d *decoder) object(depth int) (value, error) {
	v := value{kind: kindDict}
	for d.json.More() {
		t, err := d.json.Token()
		if err != nil {
			return value{}, err
		}
		key, ok := t.(string)
		if !ok {
			return value{}, errors.New("a key that is no string")
		}
		item, err := d.value(depth + 1)
		if err != nil {
			return value{}, err
		}
		if strings.HasPrefix(key, "$") && len(v.pairs) == 0 && !d.json.More() {
			if _, err := d.json.Token(); err != nil {
				return value{}, err
			}
			return tagged(key[1:], item)
		}
		v.pairs = append(v.pairs, [2]value{{kind: kindStr, text: key}, item})
	}
	_, err := d.json.Token()
	return v, err
}

func number(s string) (value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return value{}, err
		}
		return value{kind: kindFloat, real: f}, nil
	}
	if len(s) > maxIntBits/3 {
		return value{}, errors.New("an int that is too long")
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return value{}, fmt.Errorf("%.40q is no number", s)
	}
	return value{kind: kindInt, whole: n}, nil
}

// tagged makes sense of {"$tag": inner}.
func tagged(tag string, inner value) (value, error) {
	switch tag {
	case "tuple", "set", "frozenset":
		if inner.kind == kindList {
			return value{kind: kind(tag), items: inner.items}, nil
		}
	case "dict":
		return dict(inner)
	case "str", "bytes", "bytearray":
		if inner.kind == kindStr {
			raw, err := base64.StdEncoding.DecodeString(inner.text)
			return value{kind: kind(tag), text: string(raw)}, err
		}
	case "int":
		if n, ok := new(big.Int).SetString(inner.text, 0); ok && inner.kind == kindStr && len(inner.text) <= maxIntBits {
			return value{kind: kindInt, whole: n}, nil
		}
	case "float":
		switch inner.text {
		case "nan", "inf", "-inf":
			f, err := strconv.ParseFloat(inner.text, 64)
			return value{kind: kindFloat, real: f}, err
		}
	case "complex":
		if inner.kind == kindList && len(inner.items) == 2 {
			re, ok1 := inner.items[0].float()
			im, ok2 := inner.items[1].float()
			if ok1 && ok2 {
				return value{kind: kindComplex, real: re, imag: im}, nil
			}
		}
	case "std":
		if it := inner.items; len(it) == 2 && it[0].kind == kindStr && it[1].kind == kindList {
			return value{kind: kindStd, text: it[0].text, items: it[1].items}, nil
		}
	case "other":
		if it := inner.items; len(it) == 2 && it[0].kind == kindStr && it[1].kind == kindStr {
			return value{kind: kindOther, text: it[0].text, repr: it[1].text}, nil
		}
	}
	return value{}, fmt.Errorf("{%q: …} is not a tagged value; see the documentation for the tags", "$"+tag)
}

func dict(pairs value) (value, error) {
	v := value{kind: kindDict}
	for _, p := range pairs.items {
		if p.kind != kindList || len(p.items) != 2 {
			return value{}, errors.New("$dict takes a list of [key, value]")
		}
		v.pairs = append(v.pairs, [2]value{p.items[0], p.items[1]})
	}
	if pairs.kind != kindList {
		return value{}, errors.New("$dict takes a list of [key, value]")
	}
	return v, nil
}

// float returns v as a float, if it is a number that has one exactly or nearly.
func (v value) float() (float64, bool) {
	switch v.kind {
	case kindFloat:
		return v.real, true
	case kindInt, kindBool:
		f, _ := new(big.Float).SetInt(v.whole).Float64()
		return f, !math.IsInf(f, 0)
	}
	return 0, false
}

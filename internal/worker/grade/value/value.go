// Package value decodes the values of Python sandboxes and test cases, and compares them as Python
// does. The documentation of package grade has the encoding.
package value

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

// Limits of a value, so that a malicious value costs the worker little.
const (
	maxNodes   = 500_000
	maxDepth   = 160
	maxIntBits = 1 << 20
)

// Limits are the limits of an encoded value's JSON.
var Limits = boundedjson.Limits{Values: 4 * maxNodes, Depth: 2 * maxDepth}

// Kind is the exact python type of a value.
type Kind string

const (
	None      Kind = "NoneType"
	Bool      Kind = "bool"
	Int       Kind = "int"
	Float     Kind = "float"
	Complex   Kind = "complex"
	Str       Kind = "str"
	Bytes     Kind = "bytes"
	ByteArray Kind = "bytearray"
	List      Kind = "list"
	Tuple     Kind = "tuple"
	Set       Kind = "set"
	FrozenSet Kind = "frozenset"
	Dict      Kind = "dict"
	Std       Kind = "std"   // an object of a well-known type, by its arguments
	Other     Kind = "other" // anything else
)

// Value is a decoded python value.
type Value struct {
	Kind  Kind
	whole *big.Int   // bool, int
	real  float64    // float, complex; std: an infinite Decimal
	imag  float64    // complex
	Text  string     // str (UTF-8, lone surrogates as three bytes), bytes, bytearray; type of std and other
	repr  string     // other
	items []Value    // list, tuple, set, frozenset; the comparison form of std
	args  []Value    // std: its constructor's arguments
	pairs [][2]Value // dict

	number *big.Rat // std: a Decimal or Fraction that is compared as a number
}

var errValue = errors.New("not an encoded value")

// Decode reads one encoded value strictly, because the bytes are untrusted.
func Decode(raw []byte) (v Value, err error) {
	n, err := boundedjson.Count(raw, Limits)
	if err != nil {
		return Value{}, fmt.Errorf("%w: %w", errValue, err)
	}
	boundedjson.Build(raw, n, func() { v, err = build(raw) })
	return v, err
}

func build(raw []byte) (Value, error) {
	d := &decoder{nodes: maxNodes}
	d.json = json.NewDecoder(bytes.NewReader(raw))
	d.json.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return Value{}, fmt.Errorf("%w: %w", errValue, err)
	}
	if _, err := d.json.Token(); err != io.EOF {
		return Value{}, fmt.Errorf("%w: something follows it", errValue)
	}
	return v, nil
}

type decoder struct {
	json  *json.Decoder
	nodes int
}

func (d *decoder) value(depth int) (Value, error) {
	t, err := d.json.Token()
	if err != nil {
		return Value{}, err
	}
	return d.from(t, depth)
}

func (d *decoder) from(t json.Token, depth int) (Value, error) {
	if d.nodes--; d.nodes < 0 {
		return Value{}, fmt.Errorf("%w: more than %d values", boundedjson.ErrLimit, maxNodes)
	}
	if depth > maxDepth {
		return Value{}, fmt.Errorf("%w: nested deeper than %d", boundedjson.ErrLimit, maxDepth)
	}
	switch t := t.(type) {
	case nil:
		return Value{Kind: None}, nil
	case bool:
		v := Value{Kind: Bool, whole: new(big.Int)}
		if t {
			v.whole.SetInt64(1)
		}
		return v, nil
	case string:
		return Value{Kind: Str, Text: t}, nil
	case json.Number:
		return number(string(t))
	case json.Delim:
		if t == '[' {
			items, err := d.items(depth)
			return Value{Kind: List, items: items}, err
		}
		return d.object(depth)
	}
	return Value{}, fmt.Errorf("a %T", t)
}

// items reads the rest of a list after its [.
func (d *decoder) items(depth int) (items []Value, err error) {
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

// object reads the rest of a dict or of a tagged value after its {.
func (d *decoder) object(depth int) (Value, error) {
	v := Value{Kind: Dict}
	for d.json.More() {
		t, err := d.json.Token()
		if err != nil {
			return Value{}, err
		}
		key, ok := t.(string)
		if !ok {
			return Value{}, errors.New("a key that is no string")
		}
		item, err := d.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		if strings.HasPrefix(key, "$") && len(v.pairs) == 0 && !d.json.More() {
			if _, err := d.json.Token(); err != nil {
				return Value{}, err
			}
			return tagged(key[1:], item)
		}
		v.pairs = append(v.pairs, [2]Value{{Kind: Str, Text: key}, item})
	}
	_, err := d.json.Token()
	return v, err
}

func number(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return Value{}, err
		}
		return Value{Kind: Float, real: f}, nil
	}
	if len(s) > maxIntBits/3 {
		return Value{}, errors.New("an int that is too long")
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return Value{}, fmt.Errorf("%.40q is no number", s)
	}
	return Value{Kind: Int, whole: n}, nil
}

// tagged interprets {"$tag": inner}.
func tagged(tag string, inner Value) (Value, error) {
	switch tag {
	case "tuple", "set", "frozenset":
		if inner.Kind == List {
			return Value{Kind: Kind(tag), items: inner.items}, nil
		}
	case "dict":
		return dict(inner)
	case "str", "bytes", "bytearray":
		if inner.Kind == Str {
			raw, err := base64.StdEncoding.DecodeString(inner.Text)
			return Value{Kind: Kind(tag), Text: string(raw)}, err
		}
	case "int":
		if n, ok := new(big.Int).SetString(inner.Text, 0); ok && inner.Kind == Str && len(inner.Text) <= maxIntBits {
			return Value{Kind: Int, whole: n}, nil
		}
	case "float":
		switch inner.Text {
		case "nan", "inf", "-inf":
			f, err := strconv.ParseFloat(inner.Text, 64)
			return Value{Kind: Float, real: f}, err
		}
	case "complex":
		if inner.Kind == List && len(inner.items) == 2 {
			re, ok1 := inner.items[0].float()
			im, ok2 := inner.items[1].float()
			if ok1 && ok2 {
				return Value{Kind: Complex, real: re, imag: im}, nil
			}
		}
	case "std":
		if it := inner.items; len(it) == 2 && it[0].Kind == Str && it[1].Kind == List {
			return standard(it[0].Text, it[1].items)
		}
	case "other":
		if it := inner.items; len(it) == 2 && it[0].Kind == Str && it[1].Kind == Str {
			return Value{Kind: Other, Text: it[0].Text, repr: it[1].Text}, nil
		}
	}
	return Value{}, fmt.Errorf("{%q: …} is not a tagged value; see the documentation for the tags", "$"+tag)
}

func dict(pairs Value) (Value, error) {
	v := Value{Kind: Dict}
	for _, p := range pairs.items {
		if p.Kind != List || len(p.items) != 2 {
			return Value{}, errors.New("$dict takes a list of [key, value]")
		}
		v.pairs = append(v.pairs, [2]Value{p.items[0], p.items[1]})
	}
	if pairs.Kind != List {
		return Value{}, errors.New("$dict takes a list of [key, value]")
	}
	return v, nil
}

// float returns v as a float if it is a number in range. The result may be rounded.
func (v Value) float() (float64, bool) {
	switch v.Kind {
	case Float:
		return v.real, true
	case Int, Bool:
		f, _ := new(big.Float).SetInt(v.whole).Float64()
		return f, !math.IsInf(f, 0)
	}
	return 0, false
}

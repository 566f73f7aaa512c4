package job

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape describes the JSON of a Go type for Decode.
type shape struct {
	kind   kind
	want   string                     // "a string", for messages
	elem   *shape                     // of a list or a table
	fields map[string]field           // of an object
	names  []string                   // of fields, in the order of the type
	alias  map[string]string          // usual names of other tools, and the fields that clients mean by them
	parse  func(literal []byte) error // of a literal with a syntax of its own
	digits int                        // of anything: limit of digits of an integer
}

type field struct {
	*shape
	bit uint64 // position in the set of seen fields
}

type kind uint8

const (
	anything kind = iota // passed on unchanged
	object               // a fixed set of fields
	table                // any keys, values of one shape
	list
	text
	truth
	whole
	number
	literal // checked by parse
)

var shapes sync.Map // reflect.Type → *shape

// shapeOf returns the shape of t. The contract has no recursive types and no types with more than
// 64 fields.
func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s, _ := shapes.LoadOrStore(t, newShape(t))
	return s.(*shape)
}

var (
	rawMessage  = reflect.TypeFor[json.RawMessage]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

func newShape(t reflect.Type) *shape {
	switch {
	case t == rawMessage:
		return &shape{kind: anything, want: "a value", digits: maxDigits}
	case reflect.PointerTo(t).Implements(unmarshaler):
		return &shape{kind: literal, want: wantLiteral(t), parse: func(b []byte) error {
			return reflect.New(t).Interface().(json.Unmarshaler).UnmarshalJSON(b)
		}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Struct:
		return objectShape(t)
	case reflect.Map:
		return &shape{kind: table, want: "an object", elem: shapeOf(t.Elem())}
	case reflect.Slice, reflect.Array:
		return &shape{kind: list, want: "a list", elem: shapeOf(t.Elem())}
	case reflect.String:
		return &shape{kind: text, want: "a string"}
	case reflect.Bool:
		return &shape{kind: truth, want: "true or false"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &shape{kind: whole, want: "a whole number"}
	case reflect.Float32, reflect.Float64:
		return &shape{kind: number, want: "a number"}
	}
	return &shape{kind: anything, want: "a value", digits: maxDigits}
}

func wantLiteral(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Size]():
		return `a size such as "256Mi"`
	case reflect.TypeFor[Duration]():
		return `a duration such as "1.5s"`
	}
	return "a " + t.Name()
}

func objectShape(t reflect.Type) *shape {
	s := &shape{kind: object, want: "an object", fields: map[string]field{}, alias: map[string]string{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		of := shapeOf(f.Type)
		if f.Tag.Get("digits") == "long" {
			of = of.withDigits(maxLongDigits)
		}
		if example := f.Tag.Get("example"); example != "" {
			of = of.withExample(example)
		}
		for _, alias := range strings.Fields(f.Tag.Get("alias")) {
			s.alias[alias] = name
		}
		s.fields[name] = field{of, 1 << len(s.names)}
		s.names = append(s.names, name)
	}
	return s
}

// withExample returns s with an example for the message about a value of another kind.
func (s *shape) withExample(json string) *shape {
	c := *s
	c.want += " such as " + json
	return &c
}

// withDigits returns s with a different limit for the digits of integers.
func (s *shape) withDigits(n int) *shape {
	c := *s
	if c.digits = n; c.elem != nil {
		c.elem = c.elem.withDigits(n)
	}
	return &c
}

// nearest returns the field of s that is most similar to name, or whose alias is; "" if none is.
func (s *shape) nearest(name string) string {
	n := Nearest(name, slices.AppendSeq(slices.Clone(s.names), maps.Keys(s.alias)))
	if of, found := s.alias[n]; found {
		return of
	}
	return n
}

// FieldNames returns the JSON names of the fields of the struct v, in order.
func FieldNames(v any) []string { return shapeOf(reflect.TypeOf(v)).names }

// Nearest returns the element of names that is most similar to name, or "".
func Nearest(name string, names []string) string {
	if len(name) > 40 {
		return "" // too long for a typing error, and the search would be slow
	}
	best, least := "", max(1, len(name)/3) // so that gpus is not taken for cpu
	for _, n := range names {
		if 0 < len(name) && len(name) <= 4 && !strings.EqualFold(name[:1], n[:1]) {
			continue // in short names the first letter is rarely wrong
		}
		if d := distance(strings.ToLower(name), n); d <= least {
			best, least = n, d-1
		}
	}
	return best
}

// distance is the number of edits (insert, drop, replace, swap of neighbours) between a and b.
func distance(a, b string) int {
	var before, last []int // the rows of the previous prefixes of a
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			if a[i] == b[j] {
				row[j+1] = last[j]
				continue
			}
			row[j+1] = 1 + min(last[j], last[j+1], row[j])
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], 1+before[j-1])
			}
		}
	}
	return row[len(b)]
}

// Package mask removes secrets from programs' output.
//
// It matches a value verbatim, line by line, and in the notations of JSON and Python. Other
// encodings are not detected: masking prevents accidents, while a program with a secret can always
// reveal it.
package mask

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Placeholder replaces a secret.
const Placeholder = "***"

// minLine is the shortest line of a value that is masked separately, in bytes.
const minLine = 8

// Mask removes some values. A nil Mask removes nothing.
type Mask struct {
	forms   [][]byte // longest first
	longest int
}

// New returns a mask of values, or nil if there are none.
func New(values []string) *Mask {
	m := &Mask{}
	for _, v := range values {
		if v == "" {
			continue
		}
		for _, f := range forms(v) {
			m.forms = append(m.forms, []byte(f))
			m.longest = max(m.longest, len(f))
		}
	}
	if len(m.forms) == 0 {
		return nil
	}
	slices.SortFunc(m.forms, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	m.forms = slices.CompactFunc(m.forms, bytes.Equal)
	return m
}

// python converts a value to the content of its repr, in either kind of quotes.
var python = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

func forms(v string) []string {
	quoted, _ := json.Marshal(v)
	repr := python.Replace(v)
	out := []string{v, string(quoted[1 : len(quoted)-1]), repr, strings.ReplaceAll(repr, "'", `\'`)}
	for line := range strings.Lines(v) {
		if line = strings.TrimRight(line, "\r\n"); len(line) >= minLine {
			out = append(out, line)
		}
	}
	return out
}

// String returns s without the values.
func (m *Mask) String(s string) string {
	if m == nil {
		return s
	}
	out, _ := m.take([]byte(s), true)
	return string(out)
}

// take masks src. Unless end is set, it leaves a rest in which a value may have started. Its time
// does not depend on the number of values in src.
func (m *Mask) take(src []byte, end bool) (out, rest []byte) {
	limit := len(src)
	if !end {
		limit = m.decided(src)
	}
	next := make([]int, len(m.forms)) // next position of each form; len(src) for none
	for i := range next {
		next[i] = -1
	}
	pos := 0
	for pos < limit {
		at, form := limit, -1
		for i, f := range m.forms {
			if next[i] < pos {
				next[i] = len(src)
				if j := bytes.Index(src[pos:], f); j >= 0 {
					next[i] = pos + j
				}
			}
			if next[i] < at {
				at, form = next[i], i
			}
		}
		out = append(out, src[pos:at]...)
		if pos = at; form >= 0 {
			out = append(out, Placeholder...)
			pos += len(m.forms[form])
		}
	}
	return out, src[min(pos, len(src)):]
}

// maxSought is the longest value whose prefixes are searched in src, because that takes up to
// quadratic time in its length.
const maxSought = 4 << 10

// decided returns the length of src whose masking does not depend on later data: a value may start
// at its end. A viewer of a program should not wait for more.
func (m *Mask) decided(src []byte) int {
	from := max(0, len(src)-m.longest+1)
	if m.longest > maxSought {
		return from
	}
	for at := from; at < len(src); at++ {
		for _, f := range m.forms {
			if bytes.HasPrefix(f, src[at:]) {
				return at
			}
		}
	}
	return len(src)
}

// Writer masks the data written through it, independent of the boundaries of writes. The possible
// start of a value waits for the next write, or for Close.
func (m *Mask) Writer(w io.Writer) io.WriteCloser { return &writer{m: m, w: w} }

type writer struct {
	m    *Mask
	w    io.Writer
	held []byte
}

func (w *writer) Write(p []byte) (int, error) {
	out, rest := w.m.take(append(w.held, p...), false)
	w.held = bytes.Clone(rest)
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the held-back data.
func (w *writer) Close() error {
	out, _ := w.m.take(w.held, true)
	w.held = nil
	_, err := w.w.Write(out)
	return err
}

// Value masks every text that v points to, in place: in structs, slices, maps (except keys) and raw
// JSON, which remains JSON.
func (m *Mask) Value(v any) {
	if m != nil {
		m.walk(reflect.ValueOf(v))
	}
}

func (m *Mask) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			m.walk(v.Elem())
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			m.walk(f)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			e := reflect.New(v.Type().Elem())
			e.Elem().Set(v.MapIndex(k))
			m.walk(e)
			v.SetMapIndex(k, e.Elem())
		}
	case reflect.Slice:
		if raw, ok := v.Interface().(json.RawMessage); ok {
			v.Set(reflect.ValueOf(m.raw(raw)))
			return
		}
		for i := range v.Len() {
			m.walk(v.Index(i))
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(m.String(v.String()))
		}
	}
}

// raw masks JSON. If a masked number makes it invalid, the whole value is masked.
func (m *Mask) raw(raw json.RawMessage) json.RawMessage {
	out := json.RawMessage(m.String(string(raw)))
	if len(raw) > 0 && !json.Valid(out) {
		return json.RawMessage(`"` + Placeholder + `"`)
	}
	return out
}

// Package mask takes secrets out of what a program leaves behind.
//
// It knows a value as it is, line by line, and as JSON and python write it. A
// program that encodes a value in another way gets it past: masking is against
// accidents, and a program that was given a secret has it.
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

// Shown stands where a secret was.
const Shown = "***"

// minLine is the shortest line of a value that is masked by itself, in bytes.
const minLine = 8

// Mask takes some values out. A nil Mask takes out nothing.
type Mask struct {
	forms   [][]byte // longest first
	longest int
}

// New returns a mask of values, nil if there are none.
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

// python writes a value as repr does, in either kind of quotes.
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

// take masks src. Unless this is the end, it leaves the rest, in which a value
// may have begun. Its time does not depend on how many values there are in src.
func (m *Mask) take(src []byte, end bool) (out, rest []byte) {
	limit := len(src)
	if !end {
		limit = m.decided(src)
	}
	next := make([]int, len(m.forms)) // where each form comes next; len(src) for nowhere
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
			out = append(out, Shown...)
			pos += len(m.forms[form])
		}
	}
	return out, src[min(pos, len(src)):]
}

// maxSought bounds the values of which src is searched for their beginnings: the time for that may grow with the
// square of their length.
const maxSought = 4 << 10

// decided is up to where in src is known what is to be masked, whatever follows: at its end a value may have begun. Who
// watches a program is not to wait for more of it than that.
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

// Writer masks what passes through it, however it is cut into writes. What may
// be the beginning of a value waits for the next write, or for Close.
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

// Close passes on what was held back.
func (w *writer) Close() error {
	out, _ := w.m.take(w.held, true)
	w.held = nil
	_, err := w.w.Write(out)
	return err
}

// Value masks every text that v points to, in place: of structs, slices, maps
// (not their keys) and raw JSON, which stays JSON.
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

// raw masks JSON. A number may have been a value: the whole is masked then.
func (m *Mask) raw(raw json.RawMessage) json.RawMessage {
	out := json.RawMessage(m.String(string(raw)))
	if len(raw) > 0 && !json.Valid(out) {
		return json.RawMessage(`"` + Shown + `"`)
	}
	return out
}

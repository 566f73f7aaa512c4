package display

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Change is a changed field with its values before and after, if it existed.
type Change struct {
	Had, Has      bool
	Before, After string
}

// Changes lists the differences between two objects by field name.
func Changes(before, after json.RawMessage) (out []Change) {
	var was, is map[string]json.RawMessage
	_, _ = json.Unmarshal(before, &was), json.Unmarshal(after, &is) // other values have no fields
	names := maps.Clone(was)
	if names == nil {
		names = map[string]json.RawMessage{}
	}
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, had := was[name]
		b, has := is[name]
		if !bytes.Equal(a, b) || had != has {
			out = append(out, Change{had, has, fieldLine(name, a), fieldLine(name, b)})
		}
	}
	return out
}

// fieldLine returns a field as a line of text.
func fieldLine(name string, value json.RawMessage) string {
	text := string(value)
	var said string
	if json.Unmarshal(value, &said) == nil {
		text = said
	}
	return Line(name+": "+text, 500)
}

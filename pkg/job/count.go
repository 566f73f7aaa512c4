package job

import (
	"bytes"
	"encoding/json"
)

// CountElements returns how many elements the list in the given field of a JSON
// object has, or most+1 if there are more: it looks at nothing behind those and
// keeps nothing of them. What is no such object has none; decoding says why.
func CountElements(raw []byte, field string, most int) (n int) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return 0
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return n
		}
		if name != field {
			if err := dec.Decode(new(nothing)); err != nil {
				return n
			}
			continue
		}
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return n
		}
		for dec.More() {
			if n++; n > most || dec.Decode(new(nothing)) != nil {
				return n
			}
		}
		if _, err := dec.Token(); err != nil {
			return n
		}
	}
	return n
}

// nothing is what is left of JSON that nobody wants.
type nothing struct{}

// UnmarshalJSON keeps nothing.
func (*nothing) UnmarshalJSON([]byte) error { return nil }

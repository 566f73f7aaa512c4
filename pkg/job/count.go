package job

import (
	"bytes"
	"encoding/json"
)

// CountElements returns the length of the list in the given field of a JSON object, or most+1 if it
// is longer. It reads no further than that and keeps no elements. Other input has length 0;
// decoding reports its error.
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

// nothing discards a JSON value.
type nothing struct{}

// UnmarshalJSON does nothing.
func (*nothing) UnmarshalJSON([]byte) error { return nil }

// Package boundedjson decodes JSON that an enemy wrote.
//
// encoding/json builds whatever a text says: three bytes of it, "{},", can be a
// hundred of a decoded struct, so a message of some MiB costs its reader gigabytes.
// Here a text is counted before anything is built, and what is built at the same
// time, in the whole process, waits for its turn.
package boundedjson

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Limits bounds a text.
type Limits struct {
	Values int // and names, in all
	Depth  int // of objects and lists
}

// ErrLimit is wrapped by the errors of texts that have too many values, or are
// too deep.
var ErrLimit = errors.New("beyond the limits of a message")

// valueCost is what one value may cost when it is decoded, in bytes: an element of
// a list of structs, half of which is room to grow.
const valueCost = 256

// building is what may be built at the same time, in bytes.
var building = NewGate(48 << 20)

// Unmarshal is json.Unmarshal for a text within limits.
func Unmarshal(raw []byte, into any, l Limits) error {
	n, err := Count(raw, l)
	if err != nil {
		return err
	}
	// Strings are copied; the rest is values.
	defer building.Enter(len(raw) + n*valueCost)()
	return json.Unmarshal(raw, into)
}

// Build runs f when the process has room to build n values of a text.
func Build(raw []byte, n int, f func()) {
	defer building.Enter(len(raw) + n*valueCost)()
	f()
}

// Count returns how many values and names a text has, and builds nothing. It
// trusts that the text is JSON: of another one, the count is at least what a
// decoder builds before it notices.
func Count(raw []byte, l Limits) (int, error) {
	values, depth := 1, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			continue
		case '[', '{':
			values++
			if depth++; depth > l.Depth {
				return values, fmt.Errorf("%w: nested deeper than %d", ErrLimit, l.Depth)
			}
		case ']', '}':
			depth--
		case ',', ':':
			values++
		default:
			continue
		}
		if values > l.Values {
			return values, fmt.Errorf("%w: more than %d values", ErrLimit, l.Values)
		}
	}
	return values, nil
}

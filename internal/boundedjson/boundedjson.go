// Package boundedjson decodes JSON that an enemy wrote.
//
// encoding/json builds whatever a text says: three bytes of it, "{},", can be a
// hundred of a decoded struct, so a message of some MiB costs its reader gigabytes.
// Here a text is counted before anything is built, and what is built at the same
// time, in the whole process, waits for its turn.
package boundedjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assay-run/assay/internal/budget"
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

// mostBuilt bounds the memory of texts that are decoded at the same time, in bytes: the largest text of any
// reader alone, or some smaller ones.
const mostBuilt = 32 << 20

// building is that memory. Decoding waits for nothing else, so tenants need no shares of it.
var building = budget.New(mostBuilt, mostBuilt)

// enter waits for the room to decode a text of n values.
func enter(raw []byte, n int) (leave func()) {
	leave, _ = building.Enter(context.Background(), "", len(raw)+n*valueCost) // never an error
	return leave
}

// Unmarshal is json.Unmarshal for a text within limits.
func Unmarshal(raw []byte, into any, l Limits) error {
	n, err := Count(raw, l)
	if err != nil {
		return err
	}
	// Strings are copied; the rest is values.
	defer enter(raw, n)()
	return json.Unmarshal(raw, into)
}

// Build runs f when the process has room to build n values of a text.
func Build(raw []byte, n int, f func()) {
	defer enter(raw, n)()
	f()
}

// Count returns how many values and names a text has, and builds nothing. It
// trusts that the text is JSON: of another one, the count is at least what a
// decoder builds before it notices.
func Count(raw []byte, l Limits) (int, error) {
	c := counter{Limits: l, values: 1}
	err := c.add(raw)
	return c.values, err
}

// counter counts a text that comes in parts.
type counter struct {
	Limits
	values, depth int
	text, escaped bool // within a string, and behind a backslash there
	err           error
}

// add counts the next part. Its first error stays.
func (c *counter) add(part []byte) error {
	if c.err == nil {
		c.err = c.count(part)
	}
	return c.err
}

func (c *counter) count(raw []byte) error {
	for i := 0; i < len(raw); i++ {
		if c.text {
			i = c.skip(raw, i)
			continue
		}
		switch raw[i] {
		case '"':
			c.text = true
			continue
		case '[', '{':
			c.values++
			if c.depth++; c.depth > c.Depth {
				return fmt.Errorf("%w: nested deeper than %d", ErrLimit, c.Depth)
			}
		case ']', '}':
			c.depth--
		case ',', ':':
			c.values++
		default:
			continue
		}
		if c.values > c.Values {
			return fmt.Errorf("%w: more than %d values", ErrLimit, c.Values)
		}
	}
	return nil
}

// skip returns where a string ends whose text goes on at i, or the part does.
func (c *counter) skip(raw []byte, i int) int {
	for ; i < len(raw); i++ {
		switch {
		case c.escaped:
			c.escaped = false
		case raw[i] == '\\':
			c.escaped = true
		case raw[i] == '"':
			c.text = false
			return i
		}
	}
	return i
}

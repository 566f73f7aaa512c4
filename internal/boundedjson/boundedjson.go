// Package boundedjson decodes untrusted JSON.
//
// encoding/json has no limits: three bytes of input, "{},", can become a hundred bytes of a decoded
// struct, so a message of some MiB costs gigabytes. This package counts the values of a text before
// decoding. It also limits the memory of concurrent decoding in the whole process.
package boundedjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assay-run/assay/internal/budget"
)

// Limits are the limits of a text.
type Limits struct {
	Values int // including names, in total
	Depth  int // of objects and lists
}

// ErrLimit is wrapped by the errors of texts with too many values or levels.
var ErrLimit = errors.New("beyond the limits of a message")

// valueCost is the most bytes that one decoded value may take: an element of a list of structs, half of it spare
// capacity.
const valueCost = 256

// mostBuilt limits the memory of concurrent decoding, in bytes: the largest text of any reader, or
// several smaller ones.
const mostBuilt = 32 << 20

// building is this memory. Decoding waits for no other resource, so tenants need no shares of it.
var building = budget.New(mostBuilt, mostBuilt)

// enter waits for memory to decode a text of n values.
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

// Build runs f when there is memory to decode n values of a text.
func Build(raw []byte, n int, f func()) {
	defer enter(raw, n)()
	f()
}

// Count returns the number of values and names in a text without decoding it. It assumes valid
// JSON. For other text, the count is at least the number that a decoder builds before its error.
func Count(raw []byte, l Limits) (int, error) {
	c := counter{Limits: l, values: 1}
	err := c.add(raw)
	return c.values, err
}

// counter counts a text that comes in parts.
type counter struct {
	Limits
	values, depth int
	text, escaped bool // inside a string, and after a backslash there
	err           error
}

// add counts the next part. Its first error is permanent.
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

// skip returns the end of a string that continues at i, or the end of the part.
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

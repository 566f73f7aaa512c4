package value

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"

	"github.com/assay-run/assay/internal/boundedjson"
	"github.com/assay-run/assay/pkg/job"
)

// BadCase returns the problem of a case with values that Python cannot represent, or "". Such a
// case cannot be passed, through no fault of the solution.
func BadCase(c *job.Case) string {
	for i, raw := range c.Args {
		if err := readable(raw); err != nil {
			return fmt.Sprintf("args[%d]: %v", i, err)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Kwargs)) {
		if err := readable(c.Kwargs[k]); err != nil {
			return fmt.Sprintf("kwargs.%s: %v", k, err)
		}
	}
	if c.Expected == nil {
		return ""
	}
	want, err := Expected(c)
	if err == nil {
		err = hashable(want)
	}
	if err != nil {
		return "expected: " + err.Error()
	}
	return ""
}

// Expected decodes the expected value of a case. A list stands for the sequence or set in the
// expected type, because JSON has no others.
func Expected(c *job.Case) (Value, error) {
	want, err := Decode(c.Expected)
	if err != nil {
		return want, err
	}
	switch k := Kind(c.ExpectedType); k {
	case Tuple, Set, FrozenSet:
		if want.Kind == List {
			want.Kind = k
		}
	}
	return want, nil
}

// between matches the tags that are only valid between the two sides of a check. Python handles
// them.
var between = regexp.MustCompile(`"\$(obj|view|ndarray|error|ref|back)"`)

// NeedsPython reports whether only Python can decode an argument of the case.
func NeedsPython(c *job.Case) bool {
	for _, raw := range c.Args {
		if between.Match(raw) {
			return true
		}
	}
	for _, raw := range c.Kwargs {
		if between.Match(raw) {
			return true
		}
	}
	return false
}

// readable checks an argument. It applies no size limits, which are for values from solutions.
func readable(raw []byte) error {
	if !bytes.Contains(raw, []byte(`"$`)) {
		return nil
	}
	v, err := Decode(raw)
	if err != nil && (between.Match(raw) || errors.Is(err, boundedjson.ErrLimit)) {
		return nil
	}
	if err != nil {
		return err
	}
	return hashable(v)
}

var errUnhashable = errors.New("a list, set or dict is no member of a set, and no key of a dict")

// hashable checks the members of sets and the keys of dicts.
func hashable(v Value) error {
	members := v.items
	if v.Kind != Set && v.Kind != FrozenSet {
		members = nil
	}
	for _, p := range v.pairs {
		members = append(members[:len(members):len(members)], p[0])
		if err := hashable(p[1]); err != nil {
			return err
		}
	}
	for _, m := range members {
		if !canHash(m) {
			return errUnhashable
		}
	}
	for _, item := range v.items {
		if err := hashable(item); err != nil {
			return err
		}
	}
	return nil
}

func canHash(v Value) bool {
	switch v.Kind {
	case List, Set, Dict, ByteArray:
		return false
	case Tuple:
		for _, item := range v.items {
			if !canHash(item) {
				return false
			}
		}
	}
	return true
}

// shortDigits is below Python's limit of 4300 digits in an integer.
const shortDigits = 1000

// numbers matches numbers with and without a tag, and strings, in order to skip digits in them.
var numbers = regexp.MustCompile(`\{\s*"\$int"\s*:\s*"(-?[0-9]+)"\s*\}|"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*`)

// ShortInts rewrites long integers of a value in hexadecimal, for which Python has no limit of
// digits.
func ShortInts(raw []byte) []byte {
	if len(raw) < shortDigits {
		return raw
	}
	return numbers.ReplaceAllFunc(raw, func(b []byte) []byte {
		if len(b) < shortDigits {
			return b
		}
		digits := string(b)
		if m := numbers.FindSubmatch(b); len(m[1]) > 0 {
			digits = string(m[1])
		}
		n, ok := new(big.Int).SetString(digits, 10)
		if !ok {
			return b
		}
		return fmt.Appendf(nil, `{"$int":"%#x"}`, n)
	})
}

package dropin

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// decode reads a request as the other servers do: what they do not know of it is ignored, and a null is as if it were
// not there. What they know is read as strictly as by job.Decode, whose errors name the field.
func decode(raw []byte, at string, into any) error {
	var all map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &all) != nil || all == nil {
		return job.Decode(raw, at, into) // which says what is wrong with it
	}
	known := members(reflect.TypeOf(into).Elem())
	for name := range all {
		if !known[name] {
			delete(all, name)
		}
	}
	kept, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return job.Decode(kept, at, into)
}

// members are the names in JSON of the fields of a struct.
func members(t reflect.Type) map[string]bool {
	known := map[string]bool{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	return known
}

// checkText judges text that reaches a program, before a job is made of it, so that errors name the field as the client
// sent it.
func checkText(field, s string, most job.Size) error {
	switch {
	case len(s) > int(most):
		return job.Invalid(field, "is %d bytes; at most %s", len(s), most)
	case strings.IndexByte(s, 0) >= 0:
		return job.Invalid(field, "must not contain NUL bytes, nor text that is not Unicode")
	}
	return nil
}

// span reads a time of so many units; def where it is not given. Fractions of a unit count.
func span(field string, n *float64, unit, def time.Duration) (time.Duration, error) {
	if n == nil {
		return def, nil
	}
	if !(*n > 0) {
		return 0, job.Invalid(field, "%v must be more than 0", *n)
	}
	most := job.MaxWall.D()
	if d := *n * float64(unit); d < float64(most) {
		return max(time.Duration(d), time.Millisecond), nil
	}
	return most, nil
}

// size reads a limit of memory of so many units; 0, which is the policy's, where it is not given or not above 0.
func size(n *float64, unit job.Size) job.Size {
	switch {
	case n == nil || !(*n > 0):
		return 0
	case *n*float64(unit) >= math.MaxInt64/2:
		return math.MaxInt64 / 2
	}
	return job.Size(*n * float64(unit))
}

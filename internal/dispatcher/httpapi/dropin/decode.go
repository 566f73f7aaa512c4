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

// decode decodes a request as leniently as the other servers: it ignores unknown fields and treats null as absent. It
// decodes known fields as strictly as job.Decode, whose errors name the field.
func decode(raw []byte, at string, into any) error {
	var all map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &all) != nil || all == nil {
		return job.Decode(raw, at, into) // returns the error
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

// members returns the JSON names of a struct's fields.
func members(t reflect.Type) map[string]bool {
	known := map[string]bool{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	return known
}

// checkText validates text for a program before a job is built, so that errors name the client's field.
func checkText(field, s string, most job.Size) error {
	switch {
	case len(s) > int(most):
		return job.Invalid(field, "is %d bytes; at most %s", len(s), most)
	case strings.IndexByte(s, 0) >= 0:
		return job.Invalid(field, "must not contain NUL bytes, nor text that is not Unicode")
	}
	return nil
}

// span converts a number of units to a duration; the default is def. It accepts fractions and cuts at job.MaxWall.
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

// size converts a number of units to a memory limit. Absent and non-positive numbers become 0, which selects the
// policy's limit.
func size(n *float64, unit job.Size) job.Size {
	switch {
	case n == nil || !(*n > 0):
		return 0
	case *n*float64(unit) >= math.MaxInt64/2:
		return math.MaxInt64 / 2
	}
	return job.Size(*n * float64(unit))
}

package job

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzJob checks that decoding any input ends in a FieldError, or in a spec that survives a round trip and
// that encoding/json reads in the same way.
func FuzzJob(f *testing.F) {
	f.Add([]byte(small))
	for _, c := range badSpecs {
		if len(c.in) < 1000 {
			f.Add([]byte(c.in))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec, err := DecodeSpec(raw)
		if err != nil {
			bad := new(FieldError)
			if !errors.As(err, &bad) || bad.Problem == "" || !utf8.ValidString(err.Error()) {
				t.Fatalf("error %#v", err)
			}
			if !json.Valid(raw) && bad.Field != "" {
				t.Fatalf("%v: malformed input is blamed on a field", err)
			}
			return
		}
		whole, err := json.Marshal(spec)
		if err != nil {
			t.Fatalf("accepted, but cannot be stored: %v", err)
		}
		again, err := DecodeSpec(whole)
		if err != nil {
			t.Fatalf("accepted, but what was stored is refused: %v\n%s", err, whole)
		}
		rewhole, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(whole), string(rewhole)); diff != "" {
			t.Fatalf("a round trip changes the spec:\n%s", diff)
		}
	})
}

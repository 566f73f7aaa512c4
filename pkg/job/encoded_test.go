package job

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestEncodedSize checks that EncodedSize equals the size of package json's encoding, and that Edges keeps
// within its limit.
func TestEncodedSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		raw, err := json.Marshal(s)
		if err != nil || EncodedSize(s) != len(raw) {
			t.Fatalf("EncodedSize(%q) = %d, want %d", s, EncodedSize(s), len(raw))
		}
		most := rapid.IntRange(0, 40).Draw(t, "most")
		got := Edges(s, most, "elsewhere")
		if EncodedSize(s)-2 <= most && got != s {
			t.Fatalf("Edges(%q, %d) = %q cuts what fits", s, most, got)
		}
		if got != s {
			j := strings.LastIndex(got, " are elsewhere]\n")
			i := strings.LastIndex(got[:max(j, 0)], "\n[") // the tail may begin with a bracket
			if i < 0 {
				t.Fatalf("Edges(%q, %d) = %q has no marker", s, most, got)
			}
			head, tail := got[:i], got[j+len(" are elsewhere]\n"):]
			if EncodedSize(head)-2 > most || EncodedSize(tail)-2 > most || !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) {
				t.Fatalf("Edges(%q, %d) = %q", s, most, got)
			}
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("Edges(%q, %d) = %q cuts a character", s, most, got)
		}
	})
}

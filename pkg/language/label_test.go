package language

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVersions checks labels, which the builder of an image writes freely: an unreadable label counts as
// absent, and a readable one is bounded.
func TestVersions(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]map[string]string{
		"":                         nil,
		"{":                        nil,
		`["c"]`:                    nil,
		`{"c":1}`:                  nil,
		"{}":                       {},
		`{"c":"gcc 12","ada":"1"}`: {"c": "gcc 12"},
		`{"c":"\u001b[2Jgcc\n"}`:   {"c": "[2Jgcc"},
		`{"c":"` + strings.Repeat("é", 150) + `"}`:      {"c": strings.Repeat("é", 100)},
		`{"c":"` + strings.Repeat("x", maxLabel) + `"}`: nil,
	} {
		if diff := cmp.Diff(want, Versions(label)); diff != "" {
			t.Errorf("%.40s: %s", label, diff)
		}
	}
}

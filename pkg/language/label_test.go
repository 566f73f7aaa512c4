package language

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A label is what whoever built the image wrote: what cannot be read says nothing, and what can be is bounded.
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

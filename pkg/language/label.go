package language

import (
	"encoding/json"
	"strings"
	"unicode"
)

// Label is the image label that lists its languages: a JSON object from the name of a language to
// its version line. images/build writes it from the output of the languages. Third-party images may
// have it, too.
const Label = "run.assay.languages"

// maxLabel and maxVersion limit how much of a label is read, in bytes, because labels are
// untrusted.
const (
	maxLabel   = 16 << 10
	maxVersion = 200
)

// Versions reads a Label. It returns the languages of the catalogue with their versions, or nil if
// the label is missing or malformed.
func Versions(label string) map[string]string {
	var said map[string]string
	if label == "" || len(label) > maxLabel || json.Unmarshal([]byte(label), &said) != nil {
		return nil
	}
	out := map[string]string{}
	for i := range catalogue {
		if v, ok := said[catalogue[i].Name]; ok {
			out[catalogue[i].Name] = plain(v)
		}
	}
	return out
}

// plain returns the printable part of a version.
func plain(version string) string {
	out := strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, version)
	if len(out) > maxVersion {
		out = strings.ToValidUTF8(out[:maxVersion], "")
	}
	return out
}

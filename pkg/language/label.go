package language

import (
	"encoding/json"
	"strings"
	"unicode"
)

// Label is the label of an image that says which languages it has: a JSON object from the name of a language to the line in
// which it says its version. images/build makes it of what the languages say there. An image of others may have it, too.
const Label = "run.assay.languages"

// maxLabel and maxVersion bound what is read of a label, in bytes: anybody may have written it.
const (
	maxLabel   = 16 << 10
	maxVersion = 200
)

// Versions reads a Label: languages of the catalogue with their versions. It returns nil where there is none, or none that
// can be read: then nothing is known of the image.
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

// plain returns what of a version may be shown anywhere.
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

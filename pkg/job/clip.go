package job

import (
	"strings"
	"unicode/utf8"
)

// Clip returns s if it has at most n bytes. Otherwise it returns the whole characters among its
// first n bytes, followed by "…". Invalid UTF-8 is kept.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && n-end < utf8.UTFMax-1 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// maxMessage is the most bytes of a message that ClipMessage keeps.
const maxMessage = 1000

// ClipMessage returns the first 1000 bytes of a message, as Clip does, with U+FFFD for invalid UTF-8: records accept only UTF-8.
func ClipMessage(s string) string { return strings.ToValidUTF8(Clip(s, maxMessage), "\uFFFD") }

package job

import "unicode/utf8"

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

package job

import "unicode/utf8"

// Clip bounds a text that is shown or recorded: it returns s if it has at most n bytes, and else what of its first n bytes
// are whole characters, with … behind. Bytes that are not UTF-8 stay as they are.
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

package job

import (
	"fmt"
	"unicode/utf8"
)

// Edges returns the head and the tail of s, each of at most so many bytes of JSON, with
// a marker line between that says where the rest is.
func Edges(s string, most int, where string) string {
	head, n := 0, 0
	for head < len(s) {
		r, size := utf8.DecodeRuneInString(s[head:])
		if n += encodedRune(r, size); n > most {
			break
		}
		head += size
	}
	tail, n := len(s), 0
	for tail > head {
		r, size := utf8.DecodeLastRuneInString(s[head:tail])
		if n += encodedRune(r, size); n > most {
			break
		}
		tail -= size
	}
	if tail == head {
		return s
	}
	return fmt.Sprintf("%s\n[%d bytes are %s]\n%s", s[:head], tail-head, where, s[tail:])
}

// EncodedSize is what s takes as JSON, without it being encoded: up to six times its
// length.
func EncodedSize(s string) int {
	n := 2
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			n += encodedRune(rune(c), 1)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		n += encodedRune(r, size)
		i += size
	}
	return n
}

// encodedRune is what package json makes of a rune of so many bytes.
func encodedRune(r rune, size int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < 0x20, r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError && size == 1:
		return 6
	}
	return size
}

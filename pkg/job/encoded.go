package job

import (
	"fmt"
	"unicode/utf8"
)

// Edges returns the head and the tail of s, each at most most bytes of JSON. The marker line
// between them includes where, the location of the rest.
func Edges(s string, most int, where string) string {
	head := headWithin(s, most)
	return joinEdges(s[:head], s[head:][tailWithin(s[head:], most):], int64(len(s)), where)
}

// EdgesOf is Edges for a text of total bytes. The caller has its head and tail, which do not
// overlap.
func EdgesOf(head, tail string, total int64, most int, where string) string {
	return joinEdges(head[:headWithin(head, most)], tail[tailWithin(tail, most):], total, where)
}

func joinEdges(head, tail string, total int64, where string) string {
	rest := total - int64(len(head)+len(tail))
	if rest == 0 {
		return head + tail
	}
	return fmt.Sprintf("%s\n[%d bytes are %s]\n%s", head, rest, where, tail)
}

// headWithin returns the end of the longest head of s that fits in most bytes of JSON.
func headWithin(s string, most int) (head int) {
	for n := 0; head < len(s); {
		r, size := utf8.DecodeRuneInString(s[head:])
		if n += encodedRune(r, size); n > most {
			break
		}
		head += size
	}
	return head
}

// tailWithin returns the start of the longest tail of s that fits in most bytes of JSON.
func tailWithin(s string, most int) int {
	tail := len(s)
	for n := 0; tail > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:tail])
		if n += encodedRune(r, size); n > most {
			break
		}
		tail -= size
	}
	return tail
}

// EncodedSize returns the size of s as JSON without encoding it. The result is up to six times the
// length of s.
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

// encodedRune returns the size of a rune as encoding/json writes it. size is its length in UTF-8.
func encodedRune(r rune, size int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < 0x20, r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError && size == 1:
		return 6
	}
	return size
}

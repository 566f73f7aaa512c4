package shown

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns at most limit bytes of s, and whether that is not all of it. Bytes that are no UTF-8 become U+FFFD, and
// what would hide or reorder the rest is shown by its name. Lines stay lines.
func Text(s string, limit int) (text string, cut bool) {
	if len(s) > limit {
		s, cut = s[:whole(s, limit)], true
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		write(&b, r)
	}
	return b.String(), cut
}

// Line returns the same as one line, with an ellipsis where it is cut.
func Line(s string, limit int) string {
	text, cut := Text(s, limit)
	text = strings.Map(func(r rune) rune {
		switch r {
		case '\n':
			return '⏎'
		case '\t':
			return ' '
		}
		return r
	}, text)
	if cut {
		text += "…"
	}
	return text
}

// whole is the largest length up to n at which s does not end within a character.
func whole(s string, n int) int {
	for cut := n; cut > n-utf8.UTFMax && cut > 0; cut-- {
		if utf8.RuneStart(s[cut]) {
			return cut
		}
	}
	return n
}

// write appends r, or what stands for it. The pictures of control characters are those of Unicode.
func write(b *strings.Builder, r rune) {
	switch {
	case r == '\n' || r == '\t':
		b.WriteRune(r)
	case r < ' ':
		b.WriteRune('␀' + r)
	case r == 0x7f:
		b.WriteRune('␡')
	case hides(r):
		fmt.Fprintf(b, "⟨U+%04X⟩", r)
	default:
		b.WriteRune(r)
	}
}

// hides reports whether a character changes how others look while it is not seen itself: marks of direction, and
// formats such as soft hyphens and tags. Joiners are left, since letters and emoji are made of them.
func hides(r rune) bool {
	return r > 0x7e && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) && r != 0x200c && r != 0x200d || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r))
}

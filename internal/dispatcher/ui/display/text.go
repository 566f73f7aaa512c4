package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns at most limit bytes of s, and whether it cut s. Invalid UTF-8 becomes U+FFFD. Characters that would hide
// or reorder others become their code points. Line breaks remain.
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

// Line is Text for one line, with an ellipsis if it is cut.
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

// whole returns the largest length up to n at which s does not end within a character.
func whole(s string, n int) int {
	for cut := n; cut > n-utf8.UTFMax && cut > 0; cut-- {
		if utf8.RuneStart(s[cut]) {
			return cut
		}
	}
	return n
}

// write appends r, or its replacement. Control characters become their Unicode pictures.
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

// hides reports whether a character is invisible and changes the display of others: directional marks, and format
// characters such as soft hyphens and tags. Joiners do not count, because letters and emoji need them.
func hides(r rune) bool {
	return r > 0x7e && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) && r != 0x200c && r != 0x200d || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r))
}

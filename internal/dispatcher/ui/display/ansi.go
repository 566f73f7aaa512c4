package display

import (
	"strconv"
	"strings"
)

// Span is a piece of text with its classes.
type Span struct{ Class, Text string }

// style is the style of a terminal.
type style struct {
	fore, back                 int // 0: default; 1…16
	bold, faint, italic, lined bool
	inverse, struckOut         bool
}

// class returns the classes of the style. It ignores concealment, so that all text is visible.
func (s style) class() string {
	var c []string
	if s.inverse {
		c = append(c, "a-inv")
	}
	if s.fore > 0 {
		c = append(c, "a-f"+strconv.Itoa(s.fore-1))
	}
	if s.back > 0 {
		c = append(c, "a-b"+strconv.Itoa(s.back-1))
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{s.bold, "a-bold"}, {s.faint, "a-faint"}, {s.italic, "a-it"}, {s.lined, "a-ul"}, {s.struckOut, "a-st"}} {
		if f.on {
			c = append(c, f.name)
		}
	}
	return strings.Join(c, " ")
}

// ANSI converts the colours and styles of SGR sequences in a program's output. It drops other escape sequences, which
// could only affect a terminal's title, cursor or clipboard. A lone carriage return begins a new line.
func ANSI(text string) []Span {
	var t Terminal
	return t.spans(text)
}

// Terminal converts an output that arrives in parts.
type Terminal struct {
	now  style
	rest string // incomplete sequence or end of line
}

// Write converts the next part.
func (t *Terminal) Write(part string) []Span {
	text := t.rest + part
	n := len(text)
	if i := strings.LastIndexByte(text, 0x1b); i >= 0 && n-i < longestHeld && open(text[i:]) {
		n = i
	} else if strings.HasSuffix(text, "\r") {
		n--
	}
	t.rest = text[n:]
	return t.spans(text[:n])
}

// longestHeld is the longest incomplete sequence that Write holds back.
const longestHeld = 256

// open reports whether the sequence at the start of s is incomplete.
func open(s string) bool {
	n, _, _ := escape(s)
	if n < len(s) {
		return false
	}
	switch end := s[len(s)-1]; {
	case len(s) == 1:
		return true
	case s[1] == '[':
		return len(s) == 2 || end < 0x40
	case strings.IndexByte("]PX^_", s[1]) >= 0:
		return end != 0x07
	case strings.IndexByte("()*+#%", s[1]) >= 0:
		return len(s) < 3
	}
	return false
}

func (t *Terminal) spans(text string) []Span {
	var out []Span
	add := func(s string) {
		if s = clean(s); s == "" {
			return
		}
		if n := len(out); n > 0 && out[n-1].Class == t.now.class() {
			out[n-1].Text += s
			return
		}
		out = append(out, Span{t.now.class(), s})
	}
	for text != "" {
		i := strings.IndexByte(text, 0x1b)
		if i < 0 {
			add(text)
			break
		}
		add(text[:i])
		text = text[i:]
		n, args, sgr := escape(text)
		if sgr {
			t.now.set(args)
		}
		text = text[n:]
	}
	return out
}

func clean(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	s, _ = Text(s, len(s))
	return s
}

// longest is the longest sequence. Longer ones are not treated as sequences.
const longest = 4 << 10

// escape returns the length of the sequence at the start of s, and the arguments of an SGR sequence.
func escape(s string) (n int, args string, sgr bool) {
	if len(s) < 2 {
		return len(s), "", false
	}
	switch s[1] {
	case '[': // CSI: parameters, then one final byte
		for n = 2; n < len(s) && n < longest; n++ {
			if s[n] >= 0x40 && s[n] <= 0x7e {
				return n + 1, s[2:n], s[n] == 'm'
			}
			if s[n] < 0x20 || s[n] > 0x7e {
				break
			}
		}
		return n, "", false
	case ']', 'P', 'X', '^', '_': // OSC, DCS, …: text up to ST or BEL
		for n = 2; n < len(s) && n < longest; n++ {
			if s[n] == 0x07 {
				return n + 1, "", false
			}
			if s[n] == 0x1b {
				return min(n+2, len(s)), "", false
			}
		}
		return n, "", false
	case '(', ')', '*', '+', '#', '%':
		return min(3, len(s)), "", false
	}
	if s[1] < 0x20 || s[1] > 0x7e { // no sequence: text follows
		return 1, "", false
	}
	return 2, "", false
}

// set applies the arguments of an SGR sequence to the style.
func (s *style) set(args string) {
	codes := strings.FieldsFunc(args, func(r rune) bool { return r == ';' || r == ':' })
	if len(codes) == 0 {
		*s = style{}
	}
	for i := 0; i < len(codes); i++ {
		code, err := strconv.Atoi(codes[i])
		if err != nil {
			return
		}
		if code == 38 || code == 48 {
			colour, used := extended(codes[i+1:])
			if i += used; code == 38 {
				s.fore = colour
			} else {
				s.back = colour
			}
			continue
		}
		s.code(code)
	}
}

func (s *style) code(code int) {
	switch {
	case code == 0:
		*s = style{}
	case code == 1:
		s.bold = true
	case code == 2:
		s.faint = true
	case code == 3:
		s.italic = true
	case code == 4:
		s.lined = true
	case code == 7:
		s.inverse = true
	case code == 9:
		s.struckOut = true
	case code == 22:
		s.bold, s.faint = false, false
	case code == 23:
		s.italic = false
	case code == 24:
		s.lined = false
	case code == 27:
		s.inverse = false
	case code == 29:
		s.struckOut = false
	case code == 39:
		s.fore = 0
	case code == 49:
		s.back = 0
	default:
		s.colour(code)
	}
}

func (s *style) colour(code int) {
	switch {
	case code >= 30 && code <= 37:
		s.fore = code - 29
	case code >= 40 && code <= 47:
		s.back = code - 39
	case code >= 90 && code <= 97:
		s.fore = code - 81
	case code >= 100 && code <= 107:
		s.back = code - 91
	}
}

// extended converts a colour of 256 or of 24 bits to the nearest of 16. It returns the number of arguments used.
func extended(codes []string) (colour, used int) {
	number := func(i int) int {
		if i >= len(codes) {
			return 0
		}
		n, _ := strconv.Atoi(codes[i]) // an invalid number counts as 0
		return min(max(n, 0), 255)
	}
	if len(codes) == 0 {
		return 0, 0
	}
	switch codes[0] {
	case "5":
		n := number(1)
		switch {
		case n < 16:
			return n + 1, 2
		case n >= 232:
			return near((n-232)*10+8, (n-232)*10+8, (n-232)*10+8), 2
		}
		n -= 16
		return near(n/36*51, n/6%6*51, n%6*51), 2
	case "2":
		return near(number(1), number(2), number(3)), 4
	}
	return 0, 1
}

// near returns the one of 16 colours that is nearest to r, g, b.
func near(r, g, b int) int {
	top := max(r, g, b)
	if top < 50 {
		return 1
	}
	if top-min(r, g, b) < 30 { // grey
		switch {
		case top < 110:
			return 9
		case top < 200:
			return 8
		}
		return 16
	}
	n := 1
	for bit, part := range []int{r, g, b} {
		if part > top/2 {
			n += 1 << bit
		}
	}
	if top > 200 {
		n += 8
	}
	return n
}

package value

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// MaxRepr limits the got and expected of one case, in bytes.
const MaxRepr = 500

// Repr formats a value as Python would, cut to MaxRepr.
func Repr(v Value) string {
	w := &writer{}
	w.value(v)
	return job.Clip(w.String(), MaxRepr)
}

// addresses matches memory addresses, which vary and have no meaning.
var addresses = regexp.MustCompile(` at 0x[0-9a-f]+`)

type writer struct{ strings.Builder }

func (w *writer) full() bool { return w.Len() > MaxRepr }

func (w *writer) value(v Value) {
	if w.full() {
		return
	}
	switch v.Kind {
	case None:
		w.WriteString("None")
	case Bool:
		w.WriteString(map[bool]string{true: "True", false: "False"}[v.whole.Sign() != 0])
	case Int:
		w.WriteString(wholeText(v.whole))
	case Float:
		w.WriteString(floatText(v.real))
	case Complex:
		w.WriteString("(" + floatText(v.real) + "+" + floatText(v.imag) + "j)")
	case Str:
		w.WriteString(quote(v.Text, false))
	case Bytes:
		w.WriteString("b" + quote(v.Text, true))
	case ByteArray:
		w.WriteString("bytearray(b" + quote(v.Text, true) + ")")
	case List:
		w.list("[", v.items, "]")
	case Tuple:
		w.list("(", v.items, map[bool]string{true: ",)", false: ")"}[len(v.items) == 1])
	case Set, FrozenSet:
		w.set(v)
	case Dict:
		w.dict(v)
	case Std:
		w.WriteString(v.TypeName())
		w.list("(", v.args, ")")
	default:
		w.WriteString("<" + v.Text + " object: " + addresses.ReplaceAllString(v.repr, "") + ">")
	}
}

func (w *writer) set(v Value) {
	switch {
	case len(v.items) == 0:
		w.WriteString(string(v.Kind) + "()")
	case v.Kind == Set:
		w.list("{", sorted(v.items), "}")
	default:
		w.list("frozenset({", sorted(v.items), "})")
	}
}

func (w *writer) list(open string, items []Value, end string) {
	w.WriteString(open)
	for i, item := range items {
		if w.full() {
			return
		}
		if i > 0 {
			w.WriteString(", ")
		}
		w.value(item)
	}
	w.WriteString(end)
}

func (w *writer) dict(v Value) {
	w.WriteString("{")
	for i, p := range v.pairs {
		if w.full() {
			return
		}
		if i > 0 {
			w.WriteString(", ")
		}
		w.value(p[0])
		w.WriteString(": ")
		w.value(p[1])
	}
	w.WriteString("}")
}

func wholeText(n *big.Int) string {
	if n.BitLen() > 4*MaxRepr {
		return "<int of " + strconv.Itoa(n.BitLen()) + " bits>"
	}
	return n.String()
}

func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// quote formats text as a Python literal.
func quote(s string, raw bool) string {
	if len(s) > 4*MaxRepr {
		s = s[:4*MaxRepr]
	}
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	out := []byte{q}
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch c := s[0]; {
		case c == q || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c < ' ' || c == 0x7f || c >= 0x80 && (raw || r == utf8.RuneError && n == 1):
			out = append(out, `\x`+strconv.FormatUint(uint64(c)+0x100, 16)[1:]...)
			n = 1
		case c >= 0x80 && !strconv.IsPrint(r):
			out = append(out, strings.Trim(strconv.QuoteRuneToASCII(r), "'")...)
		default:
			out = append(out, s[:n]...)
		}
		s = s[n:]
	}
	return string(append(out, q))
}

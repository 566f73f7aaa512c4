package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth limits the nesting of values for programs, so that their JSON readers can parse them.
const maxDepth = 200

var tooDeep = "is nested deeper than " + strconv.Itoa(maxDepth) + " levels"

// maxField is the approximate length limit of a field's path in errors, in bytes.
const maxField = 512

// maxDigits is the most digits of an integer in such a value. Python reads no more
// (sys.get_int_max_str_digits).
const maxDigits = 4300

// Decode reads the JSON in raw into the value that into points to. Its errors are *FieldError with
// the path of the field beneath at. It rejects:
//
//   - unknown, repeated and misspelled fields
//   - wrong types
//   - text that is not Unicode
//   - more than 200 levels of nesting
//   - integers with more digits than Python reads
//
// A null equals an absent field. Fields of into that raw lacks keep their values.
func Decode(raw []byte, at string, into any) error {
	if !utf8.Valid(raw) {
		return Invalid(at, "is not valid UTF-8 (byte %d)", invalidUTF8(raw))
	}
	if err := walk(raw, at, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return Invalid(at, "%s", syntaxProblem(err))
	}
	return nil
}

// CheckValue applies Decode's rules to a value that a program receives unchanged. It returns nil
// for malformed JSON, which the parser reports later.
func CheckValue(raw []byte, at string) error {
	if !utf8.Valid(raw) {
		return nil
	}
	return walk(raw, at, reflect.TypeFor[json.RawMessage]())
}

// walk finds problems that encoding/json accepts: field names in another case, repeated fields and
// halves of surrogate pairs. Its errors have paths, which those of encoding/json lack. It returns
// nil for malformed JSON, which the parser reports.
func walk(raw []byte, at string, t reflect.Type) error {
	w := walker{raw: raw}
	if w.value(shapeOf(t)); w.bad != nil && json.Valid(raw) {
		w.bad.Field = join(at, w.bad.Field)
		return w.bad
	}
	return nil
}

func syntaxProblem(err error) string {
	if s := new(json.SyntaxError); errors.As(err, &s) {
		return "is not valid JSON: " + s.Error() + " (byte " + strconv.FormatInt(s.Offset, 10) + ")"
	}
	return "cannot be read: " + err.Error()
}

func invalidUTF8(b []byte) int {
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// join appends a path to another: a.b, or a["x y"].
func join(at, path string) string {
	if at == "" || path == "" || path[0] == '[' {
		return at + path
	}
	return at + "." + path
}

// key returns the path of one key of a table.
func key(k string) string {
	if k == "" {
		return `[""]`
	}
	for _, c := range k {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_') {
			return "[" + strconv.Quote(Clip(k, 80)) + "]"
		}
	}
	return Clip(k, 80)
}

// maxLongDigits is the most digits of an integer in a case. The worker sends these in another
// notation.
const maxLongDigits = 315_000

// walker compares JSON with a shape. It assumes valid syntax: Decode drops its findings in
// malformed input and reports the syntax error.
type walker struct {
	raw []byte
	pos int
	bad *FieldError // the first problem; ends the walk

	digits int // limit of digits of an integer
}

func (w *walker) fail(problem string) {
	if w.bad == nil {
		w.bad = &FieldError{Problem: problem}
	}
	w.pos = len(w.raw)
}

// inside prepends name to the path of a problem found since.
func (w *walker) inside(name string) {
	if w.bad != nil {
		w.bad.Field = strings.ToValidUTF8(Clip(join(name, w.bad.Field), maxField), "")
	}
}

// peek skips white space and returns the next byte; 0 at the end.
func (w *walker) peek() byte {
	for ; w.pos < len(w.raw); w.pos++ {
		switch c := w.raw[w.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// step skips one byte, but stops at the end.
func (w *walker) step() { w.pos = min(w.pos+1, len(w.raw)) }

func (w *walker) value(s *shape) {
	c := w.peek()
	switch {
	case s.kind == anything:
		w.digits = s.digits
		if w.passed(0); w.bad != nil && w.bad.Problem == tooDeep {
			w.bad.Field = "" // 200 levels of the same
		}
	case s.kind == object && c == '{':
		w.object(s)
	case s.kind == table && c == '{':
		w.table(s)
	case s.kind == list && c == '[':
		w.list(s)
	case s.kind == text && c == '"':
		w.text()
	default:
		w.literal(s, c)
	}
}

func (w *walker) object(s *shape) {
	var seen uint64
	for w.pos++; w.peek() == '"'; w.comma() {
		name := w.name()
		f, ok := s.fields[string(name)] // no copy
		switch {
		case !ok:
			w.fail(s.unknown(string(name)))
		case seen&f.bit != 0:
			w.fail("is given twice")
		default:
			seen |= f.bit
			w.colon()
			if w.peek() == 'n' {
				w.skip() // null equals absent
			} else {
				w.value(f.shape)
			}
		}
		if w.bad != nil {
			w.inside(key(string(name)))
			return
		}
	}
	w.step()
}

func (s *shape) unknown(name string) string {
	if n := s.nearest(name); n != "" {
		return "unknown field; did you mean " + n + "?"
	}
	return "unknown field; there are " + strings.Join(s.names, ", ")
}

func (w *walker) table(s *shape) {
	w.keys(func() { w.value(s.elem) })
}

// keys walks an object with arbitrary keys. The function value walks one value.
func (w *walker) keys(value func()) {
	var seen names
	for w.pos++; w.peek() == '"'; w.comma() {
		name := w.name()
		if w.bad == nil && seen.isDuplicate(name) {
			w.fail("is given twice")
		}
		if w.bad == nil {
			w.colon()
			value()
		}
		if w.bad != nil {
			w.inside(key(string(name)))
			return
		}
	}
	w.step()
}

// names holds the keys of one object so far. Few keys need no table.
type names struct {
	few  [][]byte
	many map[string]bool
}

// isDuplicate adds a name and reports whether it is a duplicate.
func (n *names) isDuplicate(name []byte) bool {
	if n.many != nil {
		was := n.many[string(name)]
		n.many[string(name)] = true
		return was
	}
	for _, s := range n.few {
		if bytes.Equal(s, name) {
			return true
		}
	}
	if n.few = append(n.few, name); len(n.few) > 16 {
		n.many = make(map[string]bool, 2*len(n.few))
		for _, s := range n.few {
			n.many[string(s)] = true
		}
	}
	return false
}

// passed walks a value that a program receives unchanged.
func (w *walker) passed(depth int) {
	if depth > maxDepth {
		w.fail(tooDeep)
	}
	switch w.peek() {
	case '"':
		w.quoted()
	case '{':
		w.keys(func() { w.passed(depth + 1) })
	case '[':
		i := 0
		for w.pos++; w.peek() != ']' && w.pos < len(w.raw); w.comma() {
			if w.passed(depth + 1); w.bad != nil {
				w.inside("[" + strconv.Itoa(i) + "]")
				return
			}
			i++
		}
		w.step()
	case '}', ']', ',', ':':
		w.pos++ // malformed: the parser reports it
	default:
		if n := len(bytes.TrimPrefix(w.word(), minus)); n > w.digits {
			w.tooLong(n)
		}
	}
}

var minus = []byte("-")

// tooLong rejects the preceding word of n bytes if it is an integer.
func (w *walker) tooLong(n int) {
	if word := w.raw[w.pos-n : w.pos]; len(bytes.Trim(word, "0123456789")) == 0 {
		w.fail("is a whole number of " + strconv.Itoa(n) + " digits; python reads " + strconv.Itoa(w.digits) + " at most, so pass it as a string")
	}
}

func (w *walker) list(s *shape) {
	i := 0
	for w.pos++; w.peek() != ']' && w.pos < len(w.raw); w.comma() {
		if w.value(s.elem); w.bad != nil {
			w.inside("[" + strconv.Itoa(i) + "]")
			return
		}
		i++
	}
	w.step()
}

func (w *walker) colon() {
	if w.peek() == ':' {
		w.pos++
	}
}

func (w *walker) comma() {
	if w.peek() == ',' {
		w.pos++
	}
}

// name reads the name of a field.
func (w *walker) name() []byte {
	start := w.pos
	escaped := w.text()
	if w.bad != nil {
		return nil
	}
	token := w.raw[start:w.pos]
	if escaped {
		var s string
		_ = json.Unmarshal(token, &s) // malformed: the parser reports it
		return []byte(s)
	}
	return token[1:max(1, len(token)-1)]
}

// text skips a string and reports whether it has \u escapes.
func (w *walker) text() (escaped bool) {
	start := w.pos
	escaped = w.quoted()
	if escaped && halfPair(w.raw[start:w.pos]) {
		w.fail("has half of a surrogate pair (\\ud800 to \\udfff); text must be Unicode")
	}
	return escaped
}

// halfPair reports whether a string token has an unpaired surrogate as a \u escape.
func halfPair(token []byte) bool {
	for i := 0; i < len(token); i++ {
		if token[i] != '\\' {
			continue
		}
		if i++; i >= len(token) || token[i] != 'u' {
			continue
		}
		switch r := utf16At(token[i-1:]); {
		case !utf16.IsSurrogate(r):
		case utf16.DecodeRune(r, utf16At(token[i+5:])) == utf8.RuneError:
			return true
		default:
			i += 6
		}
	}
	return false
}

// utf16At returns the code unit of the \u escape that b starts with, or -1.
func utf16At(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// quoted skips a string and reports whether it has \u escapes.
func (w *walker) quoted() (unicode bool) {
	w.pos++
	for end := w.pos; ; {
		if end <= w.pos { // no end found yet, or the quote is escaped
			n := bytes.IndexByte(w.raw[w.pos:], '"')
			if n < 0 {
				w.pos = len(w.raw)
				return unicode
			}
			end = w.pos + n
		}
		n := bytes.IndexByte(w.raw[w.pos:end], '\\')
		if n < 0 {
			w.pos = end + 1
			return unicode
		}
		w.pos += n + 1
		unicode = unicode || w.raw[w.pos] == 'u'
		w.pos++
	}
}

// skip skips any value.
func (w *walker) skip() {
	depth := 0
	for w.pos < len(w.raw) {
		switch w.peek() {
		case '"':
			w.quoted()
		case '{', '[':
			if depth++; depth > maxDepth {
				w.fail(tooDeep)
			}
			w.pos++
		case '}', ']':
			depth--
			w.pos++
		case ',', ':':
			w.pos++
		default:
			w.word()
		}
		if depth <= 0 {
			return
		}
	}
}

// word skips a number, true, false or null.
func (w *walker) word() []byte {
	start := w.pos
	for ; w.pos < len(w.raw); w.pos++ {
		switch w.raw[w.pos] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\r', '\n':
			return w.raw[start:w.pos]
		}
	}
	return w.raw[start:]
}

// literal checks a value that is neither a container nor a plain string.
func (w *walker) literal(s *shape, c byte) {
	start := w.pos
	w.skip()
	b := w.raw[start:min(w.pos, len(w.raw))]
	if len(b) == 0 || w.bad != nil {
		return
	}
	var err error
	switch isNumber := c == '-' || '0' <= c && c <= '9'; {
	case s.kind == literal && c != '{' && c != '[' && c != 'n':
		if err = s.parse(b); err != nil {
			w.fail(strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "))
		}
		return
	case s.kind == truth && (c == 't' || c == 'f'):
		return
	case s.kind == whole && isNumber:
		_, err = strconv.ParseInt(string(b), 10, 64)
	case s.kind == number && isNumber:
		_, err = strconv.ParseFloat(string(b), 64)
	default:
		w.fail("must be " + s.want + ", not " + describe(c))
		return
	}
	if err != nil {
		w.fail("must be " + s.want + " of 64 bits, not " + Clip(string(b), 40))
	}
}

func describe(c byte) string {
	switch c {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

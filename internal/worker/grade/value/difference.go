package value

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

const (
	// longRepr is the length in bytes above which a value is abbreviated and its first difference
	// named.
	longRepr = 100
	// maxPart limits one value of a difference, and maxPath its path, in bytes.
	maxPart, maxPath = 80, 120
	// beforeChar and afterChar are how many characters around a difference of texts are shown.
	beforeChar, afterChar = 20, 40
)

// Compared formats two different values as Python would. If one is long, it abbreviates both, and
// first is the path to their first difference with both values, such as "[4999]: got 1, expected
// 2". Otherwise first is empty.
func Compared(got, want Value) (g, w, first string) {
	g, w = Repr(got), Repr(want)
	if len(g) <= longRepr && len(w) <= longRepr {
		return g, w, ""
	}
	d := differ{}
	d.differ(got, want)
	return job.Clip(g, longRepr), job.Clip(w, longRepr), d.String()
}

// differ finds the first difference of two values.
type differ struct {
	path  []string
	found string
	whole bool // the values have different kinds, or are not containers
}

func (d *differ) String() string {
	if d.found == "" || d.whole {
		return ""
	}
	path := strings.Join(d.path, "")
	if len(path) > maxPath {
		path = "…" + strings.ToValidUTF8(path[len(path)-maxPath:], "")
	}
	return strings.TrimPrefix(path+": "+d.found, ": ")
}

// differ reports whether the values differ, and records their first difference.
func (d *differ) differ(a, b Value) bool {
	switch {
	case a.Kind == b.Kind && (a.Kind == List || a.Kind == Tuple):
		return d.items(a.items, b.items)
	case a.Kind == Dict && b.Kind == Dict:
		return d.dicts(a, b)
	case (a.Kind == Set || a.Kind == FrozenSet) && (b.Kind == Set || b.Kind == FrozenSet):
		return d.sets(a, b)
	case Equal(a, b):
		return false
	case a.Kind == b.Kind && (a.Kind == Str || a.Kind == Bytes) && max(len(a.Text), len(b.Text)) > maxPart/2:
		d.texts(a, b)
	default:
		d.whole = len(d.path) == 0
		d.say("got %s, expected %s%s", part(a), part(b), kinds(a, b))
	}
	return true
}

func (d *differ) say(format string, args ...any) { d.found = fmt.Sprintf(format, args...) }

func part(v Value) string { return job.Clip(Repr(v), maxPart) }

// kinds names the types of two values that look equal.
func kinds(a, b Value) string {
	if part(a) != part(b) {
		return ""
	}
	return fmt.Sprintf(" (%s, expected %s)", a.TypeName(), b.TypeName())
}

// at reports whether the values at a place differ.
func (d *differ) at(place string, a, b Value) bool {
	d.path = append(d.path, place)
	if d.differ(a, b) {
		return true
	}
	d.path = d.path[:len(d.path)-1]
	return false
}

func (d *differ) items(a, b []Value) bool {
	lengths := ""
	if len(a) != len(b) {
		lengths = fmt.Sprintf("got %d items, expected %d", len(a), len(b))
	}
	for i := range min(len(a), len(b)) {
		if d.at("["+strconv.Itoa(i)+"]", a[i], b[i]) {
			if lengths != "" {
				d.found += "; " + lengths
			}
			return true
		}
	}
	d.found = lengths
	return lengths != ""
}

func (d *differ) dicts(a, b Value) bool {
	has := make(map[digest]Value, len(a.pairs))
	for _, p := range a.pairs {
		has[digestOf(p[0])] = p[1]
	}
	if len(has) != len(a.pairs) {
		d.say("got a dict with the same key twice")
		return true
	}
	for _, p := range b.pairs {
		key := digestOf(p[0])
		v, ok := has[key]
		if !ok {
			d.say("the key %s is missing", part(p[0]))
			return true
		}
		if d.at("["+part(p[0])+"]", v, p[1]) {
			return true
		}
		delete(has, key)
	}
	for _, p := range a.pairs {
		if _, extra := has[digestOf(p[0])]; extra {
			d.say("the key %s is not expected", part(p[0]))
			return true
		}
	}
	return len(has) > 0
}

func (d *differ) sets(a, b Value) bool {
	missing, extra := absent(b.items, a.items), absent(a.items, b.items)
	var found []string
	if missing != "" {
		found = append(found, "the member "+missing+" is missing")
	}
	if extra != "" {
		found = append(found, "the member "+extra+" is not expected")
	}
	d.found = strings.Join(found, "; ")
	return d.found != ""
}

// absent returns the first member of a that b lacks, ordered by text, because the order of sets
// varies.
func absent(a, b []Value) string {
	has := make(map[digest]bool, len(b))
	for _, v := range b {
		has[digestOf(v)] = true
	}
	first, found := "", false
	for _, v := range a {
		if !has[digestOf(v)] {
			if text := part(v); !found || text < first {
				first, found = text, true
			}
		}
	}
	return first
}

// texts records the first different character of two texts and the text around it.
func (d *differ) texts(a, b Value) {
	raw := a.Kind == Bytes
	x, y := []rune(a.Text), []rune(b.Text)
	unit := "character"
	if raw || !utf8.ValidString(a.Text) || !utf8.ValidString(b.Text) {
		x, y, unit = runesOf(a.Text), runesOf(b.Text), "byte"
	}
	i := 0
	for i < len(x) && i < len(y) && x[i] == y[i] {
		i++
	}
	show := func(r []rune) string {
		from, to := max(i-beforeChar, 0), min(i+afterChar, len(r))
		text := string(r[from:to])
		if unit == "byte" {
			text = bytesOf(r[from:to])
		}
		text = quote(text, raw)
		if raw {
			text = "b" + text
		}
		if from > 0 {
			text = "…" + text
		}
		if to < len(r) {
			text += "…"
		}
		return text
	}
	d.say("from %s %d on, got %s, expected %s", unit, i, show(x), show(y))
	if len(x) != len(y) {
		d.found += fmt.Sprintf("; got %d %ss, expected %d", len(x), unit, len(y))
	}
}

// runesOf returns a rune for each byte of s; bytesOf is the inverse.
func runesOf(s string) []rune {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return out
}

func bytesOf(r []rune) string {
	out := make([]byte, len(r))
	for i, c := range r {
		out[i] = byte(c)
	}
	return string(out)
}

// maxSorted is the largest set whose members are sorted for display.
const maxSorted = 1000

// sorted returns the members of a set in a deterministic order, unless there are too many: numbers
// by value, then the rest by text.
func sorted(items []Value) []Value {
	if len(items) > maxSorted {
		return items
	}
	type member struct {
		Value
		number bool
		size   float64
		text   string
	}
	all := make([]member, len(items))
	for i, v := range items {
		all[i] = member{Value: v, text: Repr(v)}
		all[i].size, all[i].number = v.float()
	}
	slices.SortStableFunc(all, func(a, b member) int {
		if a.number != b.number {
			return map[bool]int{true: -1, false: 1}[a.number]
		}
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.text, b.text))
	})
	out := make([]Value, len(all))
	for i, m := range all {
		out[i] = m.Value
	}
	return out
}

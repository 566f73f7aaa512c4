package value

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCompared(t *testing.T) {
	t.Parallel()
	list := func(n int, last string) string { return "[" + strings.Repeat("0, ", n) + last + "]" }
	long := func(before, after string) string { return `"` + before + strings.Repeat("x", 5000) + after + `"` }
	xs := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct{ got, want, first string }{
		"short":            {"[1, 2]", "[1, 3]", ""},
		"last of many":     {list(4999, "1"), list(4999, "2"), "[4999]: got 1, expected 2"},
		"first of many":    {"[1, " + list(5000, "0")[1:], "[2, " + list(5000, "0")[1:], "[0]: got 1, expected 2"},
		"shorter":          {list(4999, "0"), list(5000, "0"), "got 5000 items, expected 5001"},
		"longer":           {list(5000, "0"), list(4999, "0"), "got 5001 items, expected 5000"},
		"other and longer": {list(5000, "0"), "[0, 1]", "[1]: got 0, expected 1; got 5001 items, expected 2"},
		"nested":           {"[" + list(200, "[1, {\"a\": [5]}]") + "]", "[" + list(200, "[1, {\"a\": [6]}]") + "]", "[0][200][1]['a'][0]: got 5, expected 6"},
		"tuple in a list":  {list(500, `{"$tuple": [1]}`), list(500, "[1]"), "[500]: got (1,), expected [1]"},
		"type of a number": {list(500, `"1"`), list(500, "1"), "[500]: got '1', expected 1"},
		"list and tuple":   {list(500, "1"), `{"$tuple": ` + list(500, "1") + "}", ""},
		"value of a key":   {`{"k": 1, "z": ` + list(500, "1") + "}", `{"k": 2, "z": ` + list(500, "1") + "}", "['k']: got 1, expected 2"},
		"key is missing":   {`{"z": ` + list(500, "1") + "}", `{"z": ` + list(500, "1") + `, "k": 2}`, "the key 'k' is missing"},
		"key is too much":  {`[{"z": ` + list(500, "1") + `, "k": 2}]`, `[{"z": ` + list(500, "1") + `}]`, "[0]: the key 'k' is not expected"},
		"set":              {`{"$set": ` + list(0, "1, 2, 3, \""+xs(200)+"\"") + "}", `{"$set": ` + list(0, "1, 2, 4, \""+xs(200)+"\"") + "}", "the member 4 is missing; the member 3 is not expected"},
		"end of a text":    {long("", "a"), long("", "b"), "from character 5000 on, got …'" + xs(20) + "a', expected …'" + xs(20) + "b'"},
		"begin of a text":  {long("a", ""), long("b", ""), "from character 0 on, got 'a" + xs(39) + "'…, expected 'b" + xs(39) + "'…"},
		"shorter text":     {long("", ""), long("", "b"), "from character 5000 on, got …'" + xs(20) + "', expected …'" + xs(20) + "b'; got 5000 characters, expected 5001"},
		"text in a list":   {"[" + long("", "a") + "]", "[" + long("", "é") + "]", "[0]: from character 5000 on, got …'" + xs(20) + "a', expected …'" + xs(20) + "é'"},
		"blanks in a text": {long("", " a"), long("", "\\u00a0a"), "from character 5000 on, got …'" + xs(20) + " a', expected …'" + xs(20) + "\\u00a0a'"},
		"object":           {list(500, `{"$other": ["Node", "<Node>"]}`), list(500, "1"), "[500]: got <Node object: <Node>>, expected 1"},
	} {
		got, err := Decode([]byte(c.got))
		want, failed := Decode([]byte(c.want))
		if err != nil || failed != nil {
			t.Fatal(name, err, failed)
		}
		g, w, first := Compared(got, want)
		if first != c.first || len(g) > longRepr+3 || len(w) > longRepr+3 {
			t.Errorf("%s: %q, want %q; %s, %s", name, first, c.first, g, w)
		}
	}
}

// TestDifferencesAreThoseOfEqual checks that a difference is found exactly if two values are not equal.
func TestDifferencesAreThoseOfEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Value {
			v, err := Decode([]byte(rapid.SampledFrom([]string{"1", "1.0", "true", "2", `"a"`, "null", "[]", "[1]", "[1, 2]", `{"a": 1}`, `{"a": [1, 2]}`, `{"b": 1, "a": 1}`, `{"$tuple": [1]}`,
				`{"$set": [1, 2]}`, `{"$set": [2, 1.0]}`, `{"$frozenset": [1, 2]}`, `{"$float": "nan"}`, `[[1], {"a": {"$set": []}}]`, `{"$bytes": "YQ=="}`, `{"$bytearray": "YQ=="}`, `{"$dict": [[1, 2]]}`, `{"$dict": [[1.0, 2]]}`}).Draw(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		a, b := draw("a"), draw("b")
		d := differ{}
		if d.differ(a, b) == Equal(a, b) || (d.found == "") != Equal(a, b) {
			t.Fatalf("%s and %s: %+v", Repr(a), Repr(b), d)
		}
	})
}

// TestSetsAreShownInOrder checks that a set is shown in the same order in every run.
func TestSetsAreShownInOrder(t *testing.T) {
	t.Parallel()
	items := []string{`"b"`, "10", "9", `"a"`, "-1", "2.5", `{"$tuple": [1]}`, "null"}
	for range 20 {
		slices.Reverse(items[:len(items)/2])
		slices.Reverse(items)
		v, err := Decode(fmt.Appendf(nil, `{"$set": [%s]}`, strings.Join(items, ",")))
		if err != nil {
			t.Fatal(err)
		}
		if got := Repr(v); got != "{-1, 2.5, 9, 10, 'a', 'b', (1,), None}" {
			t.Fatal(got)
		}
	}
}

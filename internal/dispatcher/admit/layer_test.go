package admit

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestUnder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ base, over, want string }{
		"fields are added":      {`{"a":1}`, `{"b":2}`, `{"b":2,"a":1}`},
		"own fields win":        {`{"a":1}`, `{"a":2}`, `{"a":2}`},
		"objects are merged":    {`{"p":{"a":1,"b":{"x":1}}}`, `{"p":{"b":{"y":2}}}`, `{"p":{"b":{"y":2,"x":1},"a":1}}`},
		"lists are replaced":    {`{"l":[1,2]}`, `{"l":[3]}`, `{"l":[3]}`},
		"a name replaces":       {`{"policy":{"a":1}}`, `{"policy":"stored"}`, `{"policy":"stored"}`},
		"an object replaces":    {`{"policy":"stored"}`, `{"policy":{"a":1}}`, `{"policy":{"a":1}}`},
		"null replaces":         {`{"policy":{"a":1}}`, `{"policy":null}`, `{"policy":null}`},
		"repeats stay repeated": {`{"a":{"x":1}}`, `{"a":{},"a":{}}`, `{"a":{"x":1},"a":{"x":1}}`},
		"escaped names":         {`{"a\"b":1}`, `{}`, `{"a\"b":1}`},
		"numbers stay exact":    {`{"n":12345678901234567890.0}`, `{}`, `{"n":12345678901234567890.0}`},
		"not an object":         {`{"a":1}`, `[1]`, `[1]`},
		"cut short":             {`{"a":1}`, `{"b":`, `{"b":`},
		"more after the end":    {`{"a":1}`, `{"b":2}}`, `{"b":2}}`},
	} {
		if got := string(newLayer(json.RawMessage(c.base)).under(json.RawMessage(c.over))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// FuzzUnder checks that merging over an empty object, and over itself, changes nothing.
func FuzzUnder(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,null]},"c":"\u00e9"}`, `{}`, `[`, `{"a":1}x`, `{"a":1,"a":2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want any
		if json.Unmarshal([]byte(s), &want) != nil {
			if got := newLayer(json.RawMessage(`{}`)).under(json.RawMessage(s)); string(got) != s {
				t.Fatalf("%q became %q", s, got)
			}
			return
		}
		if _, ok := want.(map[string]any); !ok {
			return
		}
		for _, base := range []string{`{}`, s} {
			var got any
			if err := json.Unmarshal(newLayer(json.RawMessage(base)).under(json.RawMessage(s)), &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s over %s became %v (%v)", s, base, got, err)
			}
		}
	})
}

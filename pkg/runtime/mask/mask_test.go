package mask

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestString(t *testing.T) {
	t.Parallel()
	m := New([]string{"hunter22", "hunter", "a\"b\\c\n12345678", "it's-one"})
	for in, want := range map[string]string{
		"":                               "",
		"nothing here":                   "nothing here",
		"x hunter22 y hunter z":          "x *** y *** z", // the longer one first
		"hunterhunter22hunte":            "******hunte",
		`"a\"b\\c\n12345678"`:            `"***"`,
		`'a"b\\c\n12345678'`:             `'***'`,
		"a\"b\\c\n12345678":              "***",
		"the second line alone 12345678": "the second line alone ***",
		`'it\'s-one'`:                    `'***'`,
	} {
		if got := m.String(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if New(nil) != nil || New([]string{""}) != nil || (*Mask)(nil).String("x") != "x" {
		t.Error("no values are no mask")
	}
}

// However a stream is cut, nothing of a value comes through, and all else does.
func TestWriter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[ab]{4,7}`), 1, 4).Draw(t, "values")
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.StringMatching(`[abc]{0,5}`), rapid.SampledFrom(values))).Draw(t, "text"), "")
		m := New(values)
		var out bytes.Buffer
		w := m.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if want := m.String(text); out.String() != want {
			t.Errorf("%q became %q in pieces, %q in one", text, out.String(), want)
		}
		for _, v := range values {
			if strings.Contains(out.String(), v) {
				t.Errorf("%q is in %q", v, out.String())
			}
		}
	})
}

func TestValue(t *testing.T) {
	t.Parallel()
	type inner struct{ Text string }
	v := struct {
		S  string
		P  *inner
		N  *inner
		L  []inner
		M  map[string]inner
		R  json.RawMessage
		R2 json.RawMessage
		I  int
	}{"s3cret!", &inner{"a s3cret!"}, nil, []inner{{"s3cret!"}}, map[string]inner{"k": {"s3cret!"}}, json.RawMessage(`["s3cret!"]`), json.RawMessage(`12345`), 12345}
	New([]string{"s3cret!", "12345"}).Value(&v)
	want := v
	want.S, want.P, want.L, want.M = "***", &inner{"a ***"}, []inner{{"***"}}, map[string]inner{"k": {"***"}}
	want.R, want.R2 = json.RawMessage(`["***"]`), json.RawMessage(`"***"`)
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
}

// A flood of values costs no more than other output.
func BenchmarkFlood(b *testing.B) {
	m := New([]string{"aaaa", "bbbb", "cccc"})
	flood := []byte(strings.Repeat("aaaa", 16<<10))
	b.SetBytes(int64(len(flood)))
	for range b.N {
		m.take(flood, true)
	}
}

// TestWriterHoldsBackOnlyWhatMayBeAValue checks that text that cannot be part of a value passes at once,
// because a client may watch.
func TestWriterHoldsBackOnlyWhatMayBeAValue(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := New([]string{"correct horse battery staple"}).Writer(&out)
	for _, step := range []struct{ write, want string }{
		{"begun\n", "begun\n"}, {"co", "begun\n"}, {"rn\n", "begun\ncorn\n"}, {"correct horse", "begun\ncorn\n"},
		{" battery staple\n", "begun\ncorn\n***\n"}, {"c", "begun\ncorn\n***\n"},
	} {
		_, _ = w.Write([]byte(step.write))
		if out.String() != step.want {
			t.Errorf("after %q it is %q, want %q", step.write, out.String(), step.want)
		}
	}
	if _ = w.Close(); out.String() != "begun\ncorn\n***\nc" {
		t.Errorf("in the end it is %q", out.String())
	}
}

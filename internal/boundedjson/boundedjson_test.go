package boundedjson

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for raw, want := range map[string]int{
		`1`: 1, `[]`: 2, `[1,2]`: 3, `{"a":1}`: 3, `"[,,,{"`: 1, `"\"[,"`: 1, `["a\\",[]]`: 4, `{"a":{"b":[1,2,3]}}`: 8,
	} {
		if n, err := Count([]byte(raw), Limits{100, 10}); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", raw, n, err, want)
		}
	}
	for _, raw := range []string{strings.Repeat("[", 11), "[" + strings.Repeat("{},", 60) + "{}]", `{"a":` + strings.Repeat("[1,", 100)} {
		if _, err := Count([]byte(raw), Limits{100, 10}); !errors.Is(err, ErrLimit) {
			t.Errorf("%.20s: %v", raw, err)
		}
	}
}

// TestTextsAreCountedAsTheyArrive checks that a text in two parts has the same count as the whole text.
func TestTextsAreCountedAsTheyArrive(t *testing.T) {
	for _, raw := range []string{`{"a":[1,{"b":"\"[,"},null]}`, `["\\\\",[],"\\\""]`, `"[[[[,,,,"`} {
		want, _ := Count([]byte(raw), Limits{100, 10})
		for cut := range len(raw) {
			c := counter{Limits: Limits{100, 10}, values: 1}
			if err := errors.Join(c.add([]byte(raw[:cut])), c.add([]byte(raw[cut:]))); err != nil || c.values != want {
				t.Errorf("%s, cut at %d: %d, %v; want %d", raw, cut, c.values, err, want)
			}
		}
	}
}

// bomb is endless JSON of many values. It counts the read bytes.
type bomb struct{ read int }

func (b *bomb) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "[],"[(b.read+i)%3]
	}
	b.read += len(p)
	return len(p), nil
}

// TestReadingStopsAtTheLimits checks that little more is read and held of a text with too many values than needed to
// detect it.
func TestReadingStopsAtTheLimits(t *testing.T) {
	const most = 24 << 20
	l := Limits{64 << 10, 100}
	for name, read := range map[string]func(r io.Reader) ([]byte, error){
		"announced": func(r io.Reader) ([]byte, error) { return ReadLimited(r, most, 1<<20, l) },
		"to an end": func(r io.Reader) ([]byte, error) { return ReadAll(r, most, l) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := &bomb{}
		_, err := read(b)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrLimit) || b.read > 2<<20 || name == "to an end" && took > 2<<20 {
			t.Errorf("%s: %d bytes were read, %d allocated, %v", name, b.read, took, err)
		}
	}
	text := `["` + strings.Repeat("x", 3<<20) + `"]`
	if got, err := ReadAll(strings.NewReader(text), len(text), l); string(got) != text || err != nil {
		t.Errorf("a long text: %d bytes, %v", len(got), err)
	}
	if _, err := ReadAll(strings.NewReader(text), len(text)-1, l); !errors.Is(err, ErrLimit) {
		t.Errorf("one byte too many: %v", err)
	}
	if got, err := ReadLimited(strings.NewReader(text), len(text), 0, l); string(got) != text || err != nil {
		t.Errorf("a long text that was announced: %d bytes, %v", len(got), err)
	}
	many := "[" + strings.Repeat("1,", 100<<10) + "1]"
	if got, err := ReadLimited(strings.NewReader(many), len(many), len(many), l); string(got) != many || err != nil {
		t.Errorf("what is not too long may have many values: %d bytes, %v", len(got), err)
	}
	if _, err := ReadLimited(strings.NewReader("[1"), 3, 0, l); err != io.ErrUnexpectedEOF {
		t.Errorf("half a text: %v", err)
	}
}

// FuzzCount checks that the count is never less than the number of decoded values.
func FuzzCount(f *testing.F) {
	for _, raw := range []string{`{"a":[1,{"b":"\"[,"},null]}`, `[[],{},""]`, `"\u0022,"`, `[1e5,-0.1]`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := Count(raw, Limits{1 << 20, 1 << 20})
		var v any
		if err != nil || json.Unmarshal(raw, &v) != nil {
			return
		}
		if built := count(v); built > n {
			t.Errorf("%q: counted %d, built %d", raw, n, built)
		}
	})
}

func count(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n += count(x)
		}
	case map[string]any:
		for _, x := range v {
			n += 1 + count(x)
		}
	}
	return n
}

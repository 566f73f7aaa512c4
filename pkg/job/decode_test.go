package job

import (
	"encoding/json"
	"math/rand"
	"strings"
	"testing"
)

func TestHalfPairsInStrings(t *testing.T) {
	for raw, bad := range map[string]bool{
		`""`:               false,
		`"\\"`:             false,
		`"\""`:             false,
		`"a\"b\\"`:         false,
		`"\u00e9"`:         false,
		`"\ud83d\ude00"`:   false,
		`"\\ud800"`:        false, // a backslash, then letters
		`"\ud800"`:         true,
		`"\"\ud800"`:       true,
		`"\\\udc00 after"`: true,
		`"\ude00\ud83d"`:   true,
	} {
		w := walker{raw: []byte(raw)}
		if w.text(); bad != (w.bad != nil) {
			t.Errorf("%s: %v", raw, w.bad)
		}
	}
}

// The end of a string is where encoding/json finds it.
func TestStringsEndWhereTheyEnd(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 20_000 {
		var b strings.Builder
		for range r.Intn(12) {
			b.WriteByte(`a"\u0e`[r.Intn(6)])
		}
		raw := `"` + b.String() + `", "rest"`
		w := walker{raw: []byte(raw)}
		w.quoted()
		var first string
		d := json.NewDecoder(strings.NewReader(raw))
		if err := d.Decode(&first); err == nil && int(d.InputOffset()) != w.pos {
			t.Fatalf("%s ends at %d; encoding/json says at %d", raw, w.pos, d.InputOffset())
		}
	}
}

func BenchmarkCheckValue(b *testing.B) {
	raw, err := json.Marshal(strings.Repeat("assay ", 1<<20/6))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if err := CheckValue(raw, "body"); err != nil {
			b.Fatal(err)
		}
	}
}

package sandbox

import (
	"runtime"
	"strings"
	"testing"
)

// At 5ee7338 decoding each of these 4 MiB allocated 130 to 370 MiB.
func TestResultsThatGrowWhenTheyAreDecoded(t *testing.T) {
	for name, part := range map[string]string{`{"display":[`: `{},`, `{"order":[`: `[],`, `{"display":[{"table":{"rows":[`: `[],`} {
		raw := []byte(name + strings.Repeat(part, (maxPythonResult-len(name))/len(part)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := decodeResult(raw)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 || r != nil {
			t.Errorf("%s: %d MiB, %+v", name, took>>20, r)
		}
	}
}

// FuzzResult checks that the recorded output of any program is within bounds.
func FuzzResult(f *testing.F) {
	for _, raw := range []string{`{"value":{"type":"int","repr":"1","json":1},"order":[[1,2]]}`, `{"display":[{"table":{"columns":["a"],"rows":[["1"]],"total":1}}]}`, `{"exception":{"type":"E"},"variables":{"a":{}}}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := decodeResult(raw)
		if r != nil && (len(r.Display) > maxShown || len(r.Variables) > maxVariables || len(r.Order) > resultLimits.Values) {
			t.Errorf("%q", raw)
		}
	})
}

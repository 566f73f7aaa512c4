package boundedjson

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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

func TestGateBoundsWhatIsInside(t *testing.T) {
	g := NewGate(10)
	var inside, most atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		all.Add(1)
		go func() {
			defer all.Done()
			n := i % 15
			leave := g.Enter(n)
			now := inside.Add(int64(min(n, 10)))
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			inside.Add(-int64(min(n, 10)))
			leave()
			leave() // once only
		}()
	}
	all.Wait()
	if most.Load() > 10 || g.taken != 0 || len(g.queue) != 0 {
		t.Errorf("%d inside at once, %d and %d left", most.Load(), g.taken, len(g.queue))
	}
}

// FuzzCount: what is counted is never less than what is built.
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

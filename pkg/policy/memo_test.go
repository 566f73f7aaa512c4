package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestPlannerRemembers(t *testing.T) {
	t.Parallel()
	pl := NewPlanner(taskHost)
	first, err := pl.Plan(json.RawMessage(`{"wall":"1s"}`), UsePython)
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := pl.Plan(json.RawMessage(`{"wall":"1s"}`), UsePython); second != first {
		t.Error("the same policy was planned twice")
	}
	if other, _ := pl.Plan(json.RawMessage(`{"wall":"2s"}`), UsePython); other == first || other.Policy.Wall == first.Policy.Wall {
		t.Error("two policies share a plan")
	}
	for range 2 {
		if _, err := pl.Plan(json.RawMessage(`{"isolation":"vm"}`), UsePython); !errors.Is(err, job.ErrRefused) {
			t.Errorf("refusal: %v", err)
		}
	}
}

func TestMemoIsBounded(t *testing.T) {
	t.Parallel()
	var m memo[int]
	misses := 0
	ask := func(key string) {
		if _, err := m.get([]byte(key), func() (int, error) { misses++; return 0, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 * memoEntries {
		ask(fmt.Sprint(i))
		ask("popular")
	}
	if n := len(m.now) + len(m.old); n > 2*memoEntries {
		t.Errorf("%d entries, want at most %d", n, 2*memoEntries)
	}
	if misses != 10*memoEntries+1 {
		t.Errorf("%d misses: what is asked for all the time was forgotten", misses)
	}
	misses = 0
	ask(strings.Repeat("x", int(memoKey)+1))
	ask(strings.Repeat("x", int(memoKey)+1))
	if misses != 2 {
		t.Errorf("an oversized key was kept")
	}
}

func TestMemoIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	pl := NewPlanner(taskHost)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				ms := 1 + (g*i)%50
				p, err := pl.Plan(fmt.Appendf(nil, `{"wall":"%dms"}`, ms), UsePython)
				if err != nil || int(p.Policy.Wall.D().Milliseconds()) != ms {
					t.Errorf("%dms: %v, %v", ms, p, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPlannerDefault(b *testing.B) {
	raw, err := json.Marshal(Default())
	if err != nil {
		b.Fatal(err)
	}
	pl := NewPlanner(taskHost)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pl.Plan(raw, UsePython); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseAndPlan(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		p, err := Parse(json.RawMessage(`{"wall":"10s","memory":"256Mi"}`))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Plan(taskHost); err != nil {
			b.Fatal(err)
		}
	}
}

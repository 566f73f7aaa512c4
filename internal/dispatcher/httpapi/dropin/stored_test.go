package dropin

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
)

// everyPolicy is a store in which every tenant has the policy.
type everyPolicy struct{}

func (everyPolicy) Policy(context.Context, string, string, int) (json.RawMessage, error) {
	return json.RawMessage(`{"cpu_time":"1s"}`), nil
}

// The cache of policies is bounded, however many tenants there are.
func TestStoredPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	var s stored
	for i := range 2*maxStored + 1 {
		if o, err := s.get(t.Context(), everyPolicy{}, strconv.Itoa(i)); err != nil || !o.cpuTime {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	if n := len(s.of); n > maxStored {
		t.Errorf("%d policies in memory, want at most %d", n, maxStored)
	}
}

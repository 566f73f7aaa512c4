package live

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestRefusedCallsAreCounted checks that a rejected call counts as made, but not against the budget.
func TestRefusedCallsAreCounted(t *testing.T) {
	t.Parallel()
	l := &live{calls: map[int64]job.HostCall{}, policy: policy.Policy{Callbacks: policy.Callbacks{Allow: []string{"f"}, MaxCalls: 2}}}
	for i, want := range []string{"", "policy.callbacks.allow", "", "the limit of 2 calls"} {
		name := map[bool]string{true: "f", false: "g"}[i != 1]
		if why := l.admit(job.HostCall{Call: int64(i + 1), Name: name}); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("call %d: %q, want %q", i, why, want)
		}
	}
	if l.made != 4 || l.called != 2 {
		t.Errorf("%d calls, %d of the budget", l.made, l.called)
	}
}

// TestAnyFunctionMayBeCalled checks that a policy without named functions allows all functions of the client.
func TestAnyFunctionMayBeCalled(t *testing.T) {
	t.Parallel()
	l := &live{calls: map[int64]job.HostCall{}, policy: policy.Policy{Callbacks: policy.Callbacks{Allow: []string{policy.AnyFunction}, MaxCalls: 1}}}
	if why := l.admit(job.HostCall{Call: 1, Name: "whatever"}); why != "" {
		t.Error(why)
	}
	if why := l.admit(job.HostCall{Call: 2, Name: "whatever"}); !strings.Contains(why, "the limit of 1 calls") {
		t.Errorf("above the budget: %q", why)
	}
}

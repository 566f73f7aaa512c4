package live

import (
	"fmt"
	"slices"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// call forwards a call of a host function to the client, if the policy allows it.
func (l *live) call(f *message) error {
	if f.Call <= 0 || len(f.Name) > 200 {
		return fmt.Errorf("%w: a call without number or with too long a name", frame.ErrProtocol)
	}
	c := job.HostCall{Call: f.Call, Name: f.Name, Args: f.Args, Kwargs: f.Kwargs}
	refusal := l.admit(c)
	if refusal != "" {
		l.say(map[string]any{"op": "answer", "call": f.Call, "error": refusal})
		return nil
	}
	l.awake.Stay()
	l.tell(control.SessionEvent{Call: &c})
	return nil
}

// admit counts a call and returns "", or the reason why it is not allowed. It also counts rejected
// calls.
func (l *live) admit(c job.HostCall) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	budget := l.policy.Callbacks
	open := 0
	for _, other := range l.calls {
		open += len(other.Args) + len(other.Kwargs)
	}
	size := len(c.Args) + len(c.Kwargs)
	_, again := l.calls[c.Call]
	switch {
	case !budget.Allows(c.Name):
		return fmt.Sprintf("policy.callbacks.allow does not have %q", c.Name)
	case budget.MaxCalls > 0 && l.called >= budget.MaxCalls:
		return fmt.Sprintf("the limit of %d calls (policy.callbacks.max_calls) is reached", budget.MaxCalls)
	case again:
		return "a call of this number is open already"
	case size > maxArgs:
		return fmt.Sprintf("the arguments are %d bytes of JSON; a call may have %d", size, maxArgs)
	case open+size > maxOpenArgs:
		return fmt.Sprintf("the arguments of calls that wait for an answer would be %d bytes of JSON together; %d is the most", open+size, maxOpenArgs)
	case len(l.calls) >= maxOpenCalls:
		return fmt.Sprintf("%d calls are open already", maxOpenCalls)
	}
	l.called++
	l.calls[c.Call] = c
	return ""
}

// answer delivers the client's answer to a call. Only the first one counts.
func (l *live) answer(c control.SessionCall) error {
	l.mu.Lock()
	_, open := l.calls[c.Call]
	delete(l.calls, c.Call)
	l.mu.Unlock()
	if !open {
		return fmt.Errorf("%w: call %d is not open (it may have been answered)", job.ErrNotFound, c.Call)
	}
	m := map[string]any{"op": "answer", "call": c.Call}
	if c.Error != "" {
		m["error"] = c.Error
	} else {
		m["value"] = c.Value
	}
	l.say(m)
	return nil
}

// pending lists the calls without an answer.
func (l *live) pending() []job.HostCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]job.HostCall, 0, len(l.calls))
	for _, c := range l.calls {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b job.HostCall) int { return int(a.Call - b.Call) })
	return out
}

package policy

import (
	"fmt"

	"github.com/assay-run/assay/pkg/job"
)

// Limits of the stack of a program's main thread.
const (
	MinStack     = job.MiB
	MaxStack     = 64 * job.GiB
	DefaultStack = 8 * job.MiB // default of snippets, commands and sessions

	// gradedStack limits the default of graded solutions and of programs in a language of the
	// catalogue. Their default is the memory limit, as in contest judges. The reason for this limit
	// is threads, each of which reserves an address range of this size.
	gradedStack = job.GiB
	// gvisorStack is the largest stack that gVisor's kernel maps.
	gvisorStack = 128 * job.MiB
)

// stackRange returns an error for a stack that is too small for any program or too large for its
// memory. Apply lowers memory only after this check, so a ceiling cannot turn a default into an
// error.
func stackRange(p *Policy) *job.FieldError {
	switch {
	case p.Stack == 0:
		return nil
	case p.Stack < MinStack || p.Stack > MaxStack:
		return &job.FieldError{Field: "stack", Problem: fmt.Sprintf("must be %v to %v, not %v", MinStack, MaxStack, p.Stack)}
	case p.Stack > p.Memory:
		return &job.FieldError{Field: "stack", Problem: fmt.Sprintf("%v is above policy.memory, %v: raise that, or lower this", p.Stack, p.Memory)}
	}
	return nil
}

// stackFor returns the initial stack limit of a program of this kind on h.
func (p *Policy) stackFor(h Host, u Use) job.Size {
	stack := p.Stack
	if stack == 0 {
		stack = DefaultStack
		if u == UseTests || u == UseCode {
			stack = min(max(p.Memory, DefaultStack), gradedStack)
		}
	} else {
		stack = min(stack, p.Memory) // a ceiling may have lowered the memory
	}
	if p.Isolation == GVisor {
		stack = min(stack, gvisorStack)
	}
	if h.Stack > 0 {
		stack = min(stack, h.Stack)
	}
	return stack
}

// stackAsked renders the stack in a policy, or its default.
func stackAsked(p *Policy) string {
	switch {
	case p.Stack > 0:
		return p.Stack.String()
	case p.MainStack > 0:
		return p.MainStack.String()
	}
	return "default"
}

// stackApplied renders the initial stack limit of the program.
func stackApplied(p *Policy, _ Host) string {
	if p.MainStack > 0 {
		return p.MainStack.String()
	}
	return stackAsked(p)
}

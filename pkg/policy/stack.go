package policy

import (
	"fmt"

	"github.com/assay-run/assay/pkg/job"
)

// Limits of the stack of a program's main thread.
const (
	MinStack     = job.MiB
	MaxStack     = 64 * job.GiB
	DefaultStack = 8 * job.MiB // of snippets, commands and sessions that name none

	// gradedStack bounds the default of graded solutions and of programs in a language of
	// the catalogue. Their default is the memory limit, as contest judges have it. The bound
	// is for threads, which reserve an address range of this size each.
	gradedStack = job.GiB
	// gvisorStack is the most that the kernel of gVisor maps.
	gvisorStack = 128 * job.MiB
)

// stackRange refuses a stack that no program can start with or that its memory cannot hold.
// Apply lowers memory only after this check, so a ceiling never turns a default into an error.
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

// stackFor returns the stack limit that a program of this kind begins with on h.
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

// stackAsked renders the stack that a policy asks for, or the default that applies.
func stackAsked(p *Policy) string {
	switch {
	case p.Stack > 0:
		return p.Stack.String()
	case p.MainStack > 0:
		return p.MainStack.String()
	}
	return "default"
}

// stackApplied renders the limit that the program begins with.
func stackApplied(p *Policy, _ Host) string {
	if p.MainStack > 0 {
		return p.MainStack.String()
	}
	return stackAsked(p)
}

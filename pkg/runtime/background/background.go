// Package background runs what goes on beside a caller's calls, and ends with all of it: a
// runtime's slots are made, cleaned and replaced while nobody waits, and Close waits for that.
package background

import (
	"context"
	"fmt"
	"sync"
)

// ErrClosed is what fails once the end has begun. It is a cancellation: a pool that is told so
// does not complain.
var ErrClosed = fmt.Errorf("the runtime is closed: %w", context.Canceled)

// Group is what goes on in the background. It ends in three steps: Stop, Seal and Wait.
type Group struct {
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	sealed  bool
	members sync.WaitGroup
}

// New returns a group whose context has the values of ctx, and not its end.
func New(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	return g
}

// Context ends with Stop.
func (g *Group) Context() context.Context { return g.ctx }

// Enter joins the group, until Leave. It reports false once the group is sealed.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed {
		return false
	}
	g.members.Add(1)
	return true
}

// Leave ends what Enter began.
func (g *Group) Leave() { g.members.Done() }

// Spawn runs f in the background. It reports false, and runs nothing, once the group is sealed.
func (g *Group) Spawn(f func()) bool {
	if !g.Enter() {
		return false
	}
	go func() {
		defer g.Leave()
		f()
	}()
	return true
}

// Stop ends the context.
func (g *Group) Stop() { g.stop() }

// Seal ends joining.
func (g *Group) Seal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
}

// Wait waits for all who joined. None joins later: the group is sealed before.
func (g *Group) Wait() { g.members.Wait() }

// Package background runs tasks in the background, and waits for their end. A runtime creates,
// cleans and replaces slots in the background, and Close waits for these tasks.
package background

import (
	"context"
	"fmt"
	"sync"
)

// ErrClosed is the error after Seal. It is a cancellation, so that pools do not log it.
var ErrClosed = fmt.Errorf("the runtime is closed: %w", context.Canceled)

// Group is a set of background tasks. It ends in three steps: Stop, Seal and Wait.
type Group struct {
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	sealed  bool
	members sync.WaitGroup
}

// New returns a group whose context has the values of ctx, but not its end.
func New(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	return g
}

// Context returns the group's context, which ends with Stop.
func (g *Group) Context() context.Context { return g.ctx }

// Enter joins the group until Leave. It returns false after Seal.
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

// Spawn runs f in the background. After Seal it runs nothing and returns false.
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

// Seal prevents further joins.
func (g *Group) Seal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
}

// Wait waits for all members. Call it after Seal.
func (g *Group) Wait() { g.members.Wait() }

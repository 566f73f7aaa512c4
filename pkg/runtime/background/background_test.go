package background_test

import (
	"context"
	"errors"
	"testing"

	"github.com/assay-run/assay/pkg/runtime/background"
)

// TestGroupEnds checks that Wait covers all goroutines that joined, and that none joins after it.
func TestGroupEnds(t *testing.T) {
	t.Parallel()
	caller, cancel := context.WithCancel(t.Context())
	g := background.New(caller)
	cancel()
	if g.Context().Err() != nil {
		t.Error("it ends with its caller")
	}
	finish, done := make(chan struct{}), make(chan struct{})
	if !g.Spawn(func() { <-finish }) || !g.Enter() {
		t.Fatal("nobody can join")
	}
	g.Stop()
	g.Seal()
	if g.Context().Err() == nil {
		t.Error("its context goes on after Stop")
	}
	if g.Enter() || g.Spawn(func() { t.Error("it runs after the end") }) {
		t.Error("somebody joined after Seal")
	}
	go func() {
		defer close(done)
		g.Wait()
	}()
	close(finish)
	select {
	case <-done:
		t.Fatal("Wait did not wait for who entered")
	default:
	}
	g.Leave()
	<-done
}

// TestClosedIsACancellation checks that a pool does not report canceled goroutines.
func TestClosedIsACancellation(t *testing.T) {
	t.Parallel()
	if !errors.Is(background.ErrClosed, context.Canceled) {
		t.Error(background.ErrClosed)
	}
}

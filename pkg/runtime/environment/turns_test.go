package environment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestBuildTurnsAreFair checks that a tenant with a thousand builds has one turn at a time, even if the first
// never ends. Tenants without a turn precede its other builds.
func TestBuildTurnsAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, err := turns.take(ctx, "attacker")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 2000)
		for range 1000 {
			go func() {
				if _, err := turns.take(ctx, "attacker"); err == nil {
					got <- "attacker"
				}
			}()
		}
		synctest.Wait()
		victim, err := turns.take(ctx, "victim") // beside the sleeping build
		if err != nil || len(got) != 0 {
			t.Fatalf("victim: %v; the attacker has %d turns more", err, len(got))
		}
		go func() {
			if _, err := turns.take(ctx, "another"); err == nil {
				got <- "another"
			}
		}()
		synctest.Wait()
		first()
		synctest.Wait()
		if len(got) != 1 || <-got != "another" {
			t.Error("the attacker goes before one who had no turn yet")
		}
		victim()
		synctest.Wait()
		if len(got) != 1 {
			t.Errorf("the attacker has %d turns, want one", len(got))
		}
		cancel()
		synctest.Wait()
		if _, err := turns.take(ctx, "late"); !errors.Is(err, context.Canceled) || len(turns.waiting) != 0 {
			t.Errorf("given up: %v, %d wait", err, len(turns.waiting))
		}
	})
}

package testenv

import (
	"testing"
	"time"
)

// Receive waits for a value from another goroutine. Without it, a test that waits forever ends the
// whole package by its timeout.
func Receive[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(2 * time.Minute):
		t.Fatalf("timed out waiting for %s", what)
	}
	return v
}

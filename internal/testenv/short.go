package testenv

import "testing"

// Needs says what a test needs of a machine beside Go and python3: root, say, or a server that it starts itself. Whatever else this
// package gives says so by itself. `go test -short` (make quick) skips such tests, and nothing else skips any.
func Needs(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short: this test needs %s; make test runs it, and go test without -short", what)
	}
}

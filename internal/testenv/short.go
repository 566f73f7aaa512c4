package testenv

import (
	"hash/fnv"
	"testing"
)

// Needs says what a test needs of a machine beside Go and python3: root, say, or a server that it starts itself. Whatever else this
// package gives says so by itself. `go test -short` (make quick) skips such tests. Nothing but this file skips any for what a machine has.
func Needs(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short: this test needs %s; make test runs it, and go test without -short", what)
	}
}

// Sample has `go test -short` run one in three cases of a long table, the same ones each time: a case calls it at its beginning.
func Sample(t testing.TB) {
	t.Helper()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(t.Name()))
	if testing.Short() && hash.Sum32()%3 != 0 {
		t.Skip("-short: one in three cases of this table; make test runs all of them, and go test without -short")
	}
}

package testenv

import (
	"hash/fnv"
	"testing"
)

// Needs states the requirements of a test beyond Go and python3, such as root or a server that the
// test starts. Other functions of this package state their own. `go test -short` (make quick) skips
// such tests. Only this file skips tests because of the machine.
func Needs(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short: this test needs %s; make test runs it, and go test without -short", what)
	}
}

// Sample makes `go test -short` run one in three cases of a long table, always the same ones. A
// case calls it at its beginning.
func Sample(t testing.TB) {
	t.Helper()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(t.Name()))
	if testing.Short() && hash.Sum32()%3 != 0 {
		t.Skip("-short: one in three cases of this table; make test runs all of them, and go test without -short")
	}
}

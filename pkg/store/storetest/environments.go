package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// builtName and builtDigest return the name and digest of the nth environment.
func builtName(n int) string   { return fmt.Sprintf("%064x", n) }
func builtDigest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

// testEnvironments checks that the statement of enough witnesses of a pool counts, and no other.
func testEnvironments(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	state := func(name int, pool, worker string, digest int) {
		t.Helper()
		f.must(f.StateEnvironment(ctx, store.EnvironmentStatement{Name: builtName(name), Pool: pool, Worker: worker, Witness: worker, Digest: builtDigest(digest)}))
	}
	want := func(name int, pool string, witnesses int, digest string) {
		t.Helper()
		got, err := f.Environment(ctx, pool, builtName(name), witnesses)
		f.must(err)
		if got != digest {
			t.Errorf("%d witnesses of pool %s say %q of %d, want %q", witnesses, pool, got, name, digest)
		}
	}
	want(1, pool, 1, "")
	state(1, pool, "a", 10)
	want(1, pool, 1, builtDigest(10))
	want(1, pool, 2, "")
	state(1, pool, "a", 10) // a repeated statement adds no witness
	want(1, pool, 2, "")
	state(1, "gpu", "b", 10) // nor does a worker of another pool
	state(1, "gpu", "c", 10)
	want(1, pool, 2, "")
	want(1, "gpu", 2, builtDigest(10))
	state(2, pool, "b", 10) // nor does a statement about another environment
	want(1, pool, 2, "")
	state(1, pool, "b", 10)
	want(1, pool, 2, builtDigest(10))
	want(1, pool, 3, "")

	// A worker's new statement replaces its old one. Of two digests with enough witnesses, the one stated
	// last counts.
	state(1, pool, "b", 11)
	want(1, pool, 2, "")
	want(1, pool, 1, builtDigest(11))
	state(1, pool, "c", 11)
	state(1, pool, "d", 10)
	want(1, pool, 2, builtDigest(10))

	// Several workers may be one witness.
	for _, w := range []string{"j1", "j2", "j3"} {
		f.must(f.StateEnvironment(ctx, store.EnvironmentStatement{Name: builtName(3), Pool: pool, Worker: w, Witness: "join", Digest: builtDigest(1)}))
	}
	want(3, pool, 1, builtDigest(1))
	want(3, pool, 2, "")
	state(3, pool, "a", 1)
	want(3, pool, 2, builtDigest(1))
	testStatementsAreChecked(f)
	testStatementsGo(f)
}

func testStatementsAreChecked(f *fixture) {
	good := store.EnvironmentStatement{Name: builtName(1), Pool: pool, Worker: "w", Witness: "w", Digest: builtDigest(1)}
	for field, spoil := range map[string]func(*store.EnvironmentStatement){
		"name":    func(s *store.EnvironmentStatement) { s.Name = s.Name[1:] + "A" },
		"name:":   func(s *store.EnvironmentStatement) { s.Name = "../" + s.Name[3:] },
		"digest":  func(s *store.EnvironmentStatement) { s.Digest = s.Digest[7:] },
		"digest:": func(s *store.EnvironmentStatement) { s.Digest += "0" },
		"worker":  func(s *store.EnvironmentStatement) { s.Worker = "" },
		"witness": func(s *store.EnvironmentStatement) { s.Witness = "" },
	} {
		bad := good
		spoil(&bad)
		err := f.StateEnvironment(f.Context(), bad)
		f.mustBe(err, job.ErrInvalid)
		if !strings.HasPrefix(err.Error(), strings.TrimSuffix(field, ":")+": ") {
			f.Errorf("%v does not name %s", err, field)
		}
	}
	_, err := f.Environment(f.Context(), pool, "numpy", 1)
	f.mustBe(err, job.ErrInvalid)
}

// testStatementsGo checks that old statements are deleted: a worker's oldest if it has too many, and those
// that no worker repeats.
func testStatementsGo(f *fixture) {
	ctx := f.Context()
	for n := range store.EnvironmentsMost + 2 {
		f.must(f.StateEnvironment(ctx, store.EnvironmentStatement{Name: builtName(1000 + n), Pool: "busy", Worker: "w", Witness: "w", Digest: builtDigest(n)}))
	}
	for n, want := range map[int]bool{0: false, 1: false, 2: true, store.EnvironmentsMost + 1: true} {
		digest, err := f.Environment(ctx, "busy", builtName(1000+n), 1)
		f.must(err)
		if (digest != "") != want {
			f.Errorf("statement %d: %q, want it there: %v", n, digest, want)
		}
	}
	if n, err := f.ForgetEnvironments(ctx, time.Hour); err != nil || n != 0 {
		f.Errorf("%d young statements were forgotten, %v", n, err)
	}
	if n, err := f.ForgetEnvironments(ctx, -time.Minute); err != nil || n < store.EnvironmentsMost {
		f.Errorf("%d old statements were forgotten, %v", n, err)
	}
	if digest, err := f.Environment(ctx, "busy", builtName(1000+store.EnvironmentsMost), 1); err != nil || digest != "" {
		f.Errorf("forgotten, and yet %q, %v", digest, err)
	}
}

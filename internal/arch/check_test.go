package arch

import (
	"slices"
	"strings"
	"testing"
)

// TestCheckFindsViolations checks that the rules can fail.
func TestCheckFindsViolations(t *testing.T) {
	t.Parallel()
	std := func(path string) bool { return !strings.Contains(path, ".") }
	for _, c := range []struct {
		pkg  pkg
		want string // part of the only problem, "" if there is none
	}{
		{pkg{ImportPath: "./pkg/job", Imports: []string{"fmt"}}, ""},
		{pkg{ImportPath: "./pkg/policy", Imports: []string{"./pkg/job"}}, ""},
		{pkg{ImportPath: "./pkg/store/postgres", Imports: []string{"github.com/jackc/pgx/v5/pgxpool", "./pkg/store"}}, ""},
		{pkg{ImportPath: "./pkg/store/postgres", TestImports: []string{"./internal/testenv", "testing"}}, ""},
		{pkg{ImportPath: "./pkg/brandnew"}, "pkg/brandnew: a new package?"},
		{pkg{ImportPath: "./pkg/job", Imports: []string{"./pkg/policy"}}, "pkg/job (nouns, states, errors) must not import pkg/policy"},
		{pkg{ImportPath: "./pkg/job", Imports: []string{"golang.org/x/sys/unix"}}, "outlives every dependency"},
		{pkg{ImportPath: "./pkg/client", Imports: []string{"./internal/dispatcher/httpapi"}}, "must not import internal/dispatcher/httpapi"},
		{pkg{ImportPath: "./internal/worker", Imports: []string{"./internal/testenv"}}, "must not import internal/testenv"},
		{pkg{ImportPath: "./internal/dispatcher", Imports: []string{"github.com/jackc/pgx/v5"}}, "whose home is [pkg/store/postgres/...]"},
		{pkg{ImportPath: "./internal/dispatcher/httpapi", Imports: []string{"testing"}}, "test tools must not be linked"},
		{pkg{ImportPath: "./internal/worker", Imports: []string{"github.com/nats-io/nats.go/jetstream"}}, "whose home is [pkg/queue/jetstream]"},
		{pkg{ImportPath: "./cmd/worker", Deps: []string{"github.com/jackc/pgx/v5/pgconn"}}, "no database credentials"},
		{pkg{ImportPath: "./cmd/worker", Deps: []string{"github.com/nats-io/nats-server/v2/server"}}, "no servers of their own"},
		{pkg{ImportPath: "./cmd/dispatcher", Deps: []string{"./internal/testenv"}}, "no test tools"},
		{pkg{ImportPath: "./internal/worker", Imports: []string{"unsafe"}}, "whose home is [internal/guest/launcher"},
		{pkg{ImportPath: "./cmd/worker", Deps: []string{"./internal/guest/launcher"}}, "not for outside"},
		{pkg{ImportPath: "./pkg/client", Deps: []string{"./pkg/store"}}, "ask the API only"},
		{pkg{ImportPath: "./cmd/guest", Deps: []string{"net/http"}}, "starts once per job"},
	} {
		got := check([]pkg{c.pkg}, std)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%+v:\n got %q\nwant %q", c.pkg, got, c.want)
		}
	}
}

// TestTableIsConsistent checks that the table's imports point inward and are rows of it.
func TestTableIsConsistent(t *testing.T) {
	t.Parallel()
	rank := func(p string) int { return slices.Index([]string{"pkg", "internal", "cmd"}, strings.Split(p, "/")[0]) }
	// These are internal, to keep others from importing them, and also leaves: they import nothing of the control
	// plane.
	leaves := []string{"internal/guest", "internal/guest/launcher", "internal/boundedjson", "internal/budget", "internal/frame", "internal/ociimage", "guest/python"}
	for name, r := range table {
		if strings.HasPrefix(name, "./") || r.is == "" {
			t.Errorf("%s: spelled wrongly, or not said what it is", name)
		}
		for _, imp := range r.imports {
			if _, ok := table[imp]; !ok {
				t.Errorf("%s may import %s, which is not in the table", name, imp)
			}
			if rank(name) >= 0 && rank(imp) > rank(name) && !slices.Contains(leaves, imp) {
				t.Errorf("%s may import %s: outward", name, imp)
			}
		}
	}
	for _, leaf := range leaves {
		for _, imp := range table[leaf].imports {
			if imp != "pkg/job" && !slices.Contains(leaves, imp) {
				t.Errorf("%s may import %s, but is a leaf", leaf, imp)
			}
		}
	}
	for name, reason := range stdOnly {
		if _, ok := table[name]; !ok || reason == "" {
			t.Errorf("stdOnly names %s, which is not in the table", name)
		}
	}
	for _, r := range reaches {
		if _, ok := table[r.from]; !ok || r.reason == "" || len(r.never) == 0 {
			t.Errorf("reach rule from %s is incomplete", r.from)
		}
	}
}

// TestTestPackagesStayInTests checks that only suites, other test packages and drivers of real binaries import
// testOnly packages.
func TestTestPackagesStayInTests(t *testing.T) {
	t.Parallel()
	for name, r := range table {
		shipped := !strings.HasPrefix(name, "test/") && !slices.Contains(testOnly, name)
		for _, imp := range r.imports {
			if shipped && slices.Contains(testOnly, imp) {
				t.Errorf("%s may import %s", name, imp)
			}
		}
	}
}

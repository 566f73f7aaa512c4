package admin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestReadTenants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{"name":"a","weight":2,"max_running":5,"label_caps":{"problem":2},"ceiling":{"above":"clamp","memory":"1Gi","network":"allow"}},{"name":"b"}]`: "",
		`[]`: "",
		`{}`: "must be a JSON list",
		`[{"name":"*","ceiling":{"queued":5,"batches":2}},{"name":"a","ceiling":{"queued":9}}]`: "",
		`[{"name":"*","ceiling":{"memory":"1Gi"}}]`:                                             "tenants[0].ceiling.memory",
		`[{"name":"*","weight":2}]`:                                                             "only ceiling.queued and ceiling.batches",
		`[{"name":"*","ceiling":{"queued":-1}}]`:                                                "tenants[0].ceiling: must not be negative",
		`[{"name":"*"},{"name":"*"}]`:                                                           "tenants[1]: has two entries for",
		`[{"name":"a","wight":2}]`:                                                              "tenants[0].wight",
		`[{"name":"a","weight":0}]`:                                                             "",
		`[{"name":"a","weight":-1}]`:                                                            "weight: must be 0 (the default weight, 1) to 1000000",
		`[{"weight":2}]`:                                                                        "tenants[0].name",
		`[{"name":"a","label_caps":{"problem":0}}]`:                                             "label_caps.problem",
		`[{"name":"a","ceiling":{"memory":"lots"}}]`:                                            "ceiling.memory",
		`[{"name":"a","ceiling":{"above":"ignore"}}]`:                                           "ceiling.above",
		`[{"name":"a"},{"name":"b","ceiling":{"memory":"1Ki"}}]`:                                "tenants[1] (b): ceiling.memory",
		`[{"name":"a","policies":{"small":{"memory":"64Mi"}}}]`:                                 "",
		`[{"name":"a","policies":{"small":{"memory":"lots"}}}]`:                                 "policies.small: ",
		`[{"name":"a","policies":{"small":{"memori":"1Gi"}}}]`:                                  "memori",
		`[{"name":"a","policies":{"a b":{}}}]`:                                                  "not a name of a policy",
		`[{"name":"a","policies":{"small@2":{}}}]`:                                              "not a name of a policy",
		`[{"name":"a","ceiling":{"memory":"1Gi"},"policies":{"big":{"memory":"2Gi"}}}]`:         "policies.big: ",
	} {
		file := filepath.Join(t.TempDir(), "tenants.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readTenants(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// openStore returns a store over an empty database.
func openStore(t *testing.T) *postgres.Store {
	t.Helper()
	dsn := testenv.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestPoliciesOfTenants checks that a starting dispatcher stores the policies, and that a restart makes no version of
// unchanged ones.
func TestPoliciesOfTenants(t *testing.T) {
	s := openStore(t)
	file := filepath.Join(t.TempDir(), "tenants.json")
	put := func(text string) (others UnnamedTenants) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		others, err := ApplyTenants(t.Context(), s, file)
		if err != nil {
			t.Fatal(err)
		}
		return others
	}
	const first = `[{"name":"a","policies":{"small":{"memory":"64Mi"}}}]`
	put(first)
	put(first)
	put(`[{"name":"a","policies":{"small":{"memory":"128Mi"}}}]`)
	if others := put(`[{"name":"*","ceiling":{"queued":5}}]`); others.Ceiling.Queued != 5 || others.Ceiling.Batches != 0 {
		t.Errorf("of the others: %+v", others)
	}
	found, err := s.Policies(t.Context(), "a")
	if err != nil || len(found) != 1 || found[0].Name != "small" || found[0].Version != 2 || !strings.Contains(string(found[0].Policy), "128Mi") {
		t.Errorf("%+v, %v, want version 2 of small", found, err)
	}
}

// TestTheFileAndTheAPI checks that changes over the API stay when the file is applied again, until the entry itself
// changes.
func TestTheFileAndTheAPI(t *testing.T) {
	s := openStore(t)
	file := filepath.Join(t.TempDir(), "tenants.json")
	apply := func(text string) store.Tenant {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ApplyTenants(t.Context(), s, file); err != nil {
			t.Fatal(err)
		}
		got, err := s.Tenant(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := apply(`[{"name":"a","weight":2}]`); got.Weight != 2 || got.Version != 1 {
		t.Errorf("by the file: %+v", got)
	}
	if _, err := s.Grant(t.Context(), nil, store.Tenant{Name: "a", Weight: 5}, store.GrantIf{}); err != nil {
		t.Fatal(err)
	}
	if got := apply(`[ {"name":"a", "weight":2}, {"name":"b"} ]`); got.Weight != 5 || got.Version != 2 {
		t.Errorf("the same entry again: %+v", got)
	}
	if got := apply(`[{"name":"a","weight":3}]`); got.Weight != 3 || got.Version != 3 {
		t.Errorf("another entry: %+v", got)
	}
	done, err := s.Actions(t.Context(), store.ActionQuery{Subject: "a", Limit: 10})
	if err != nil || len(done) != 2 || done[0].Actor != "the file of tenants" || done[0].Tenant != "a" {
		t.Errorf("%+v, %v, want records of the two times that the file counted", done, err)
	}
}

// unputting is a store that fails to store policies.
type unputting struct{ TenantsStore }

func (unputting) PutPolicy(context.Context, *store.Action, string, string, json.RawMessage) error {
	return errors.New("no")
}

// An entry whose policies could not be stored is applied by the next start.
func TestEntriesThatFailAreAppliedAgain(t *testing.T) {
	s := openStore(t)
	file := filepath.Join(t.TempDir(), "tenants.json")
	if err := os.WriteFile(file, []byte(`[{"name":"a","weight":2,"policies":{"small":{"memory":"64Mi"}}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ApplyTenants(t.Context(), unputting{s}, file); err == nil {
		t.Fatal("a policy that was not stored is no error")
	}
	if _, err := ApplyTenants(t.Context(), s, file); err != nil {
		t.Fatal(err)
	}
	found, err := s.Policies(t.Context(), "a")
	if err != nil || len(found) != 1 || found[0].Name != "small" {
		t.Errorf("policies after the second start: %+v, %v", found, err)
	}
	if got, err := s.Tenant(t.Context(), "a"); err != nil || got.Weight != 2 || got.Version != 1 {
		t.Errorf("tenant after the second start: %+v, %v", got, err)
	}
}

// The first policy by name that has an error is named, regardless of the order of the map.
func TestFirstInvalidPolicy(t *testing.T) {
	t.Parallel()
	g := tenantSettings{Name: "a", Policies: map[string]json.RawMessage{}}
	for _, name := range strings.Split("bcdefghijklmnopq", "") {
		g.Policies[name] = json.RawMessage(`{"memory":"lots"}`)
	}
	for range 20 {
		if err := g.check(); err == nil || !strings.HasPrefix(err.Error(), "policies.b: ") {
			t.Fatal(err)
		}
	}
}

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/secret"
	"github.com/assay-run/assay/internal/transfer"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// transferKey returns a key of 32 equal bytes.
func transferKey(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

// newTarget starts a fleet whose secrets have another key.
func newTarget(t *testing.T) *fleet {
	return newFleet(t, withKeys(t, "root=root:admin,op=root:operator"), func(c *parts) {
		k, err := secret.New(transferKey(7), c.Store)
		if err != nil {
			t.Fatal(err)
		}
		c.Secrets = k
	})
}

// export returns the file of tenant a.
func (f *fleet) export(token, key string) (string, error) {
	f.t.Helper()
	var file bytes.Buffer
	err := f.client(client.WithToken(token)).Admin().ExportTenant(f.t.Context(), client.Transfer{Tenant: "a", Key: key, Reason: "it moves"}, &file)
	return file.String(), err
}

// imports imports tenant a.
func (f *fleet) imports(token, key, file string) (store.Action, error) {
	f.t.Helper()
	return f.client(client.WithToken(token)).Admin().ImportTenant(f.t.Context(), client.Transfer{Tenant: "a", Key: key, Reason: "it moves"},
		func() (io.Reader, error) { return strings.NewReader(file), nil })
}

// noted reports whether the audit log has an action.
func (f *fleet) noted(action string, outcome string) bool {
	f.t.Helper()
	all, err := f.store.Actions(f.t.Context(), store.ActionQuery{Action: action, Tenant: "a", Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(a store.Action) bool {
		return string(a.Outcome) == outcome && a.Reason == "it moves" && a.Actor == "root"
	})
}

// movable is a tenant with history, a secret and a key.
type movable struct {
	*fleet
	artifact job.ID
	batch    job.ID
	key      api.NewKey
}

func newMovable(t *testing.T) movable {
	t.Helper()
	m := movable{fleet: newFleet(t, withKeys(t, "key-a=a,op=root:operator,root=root:admin"))}
	a := m.client(client.WithToken("key-a"))
	ended, err := a.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "artifact"}}})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := a.SubmitBatch(t.Context(), client.BatchOptions{Name: "b"}, strings.NewReader(python("fail")+"\n"+python("1")+"\n"))
	if err == nil {
		_, err = a.Batch(t.Context(), batch.ID, 10*time.Second)
	}
	if err == nil {
		err = errors.Join(a.PutPolicy(t.Context(), "p", []byte(`{}`)), a.PutSecret(t.Context(), "S", "a secret value"))
	}
	if err != nil {
		t.Fatal(err)
	}
	m.artifact, m.batch, m.key = ended.ID, batch.ID, m.fleet.key("key-a", api.KeyRequest{Name: "moves"})
	return m
}

func TestMoveTenantOverTheAPI(t *testing.T) {
	t.Parallel()
	from, to := newMovable(t), newTarget(t)
	if _, err := from.export("root", ""); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "has secrets") {
		t.Errorf("an export without a key: %v", err)
	}
	file, err := from.export("root", transferKey(1))
	if err != nil {
		t.Fatal(err)
	}
	head, rows, err := transfer.Verify(strings.NewReader(file))
	if err != nil || rows["jobs"] != 3 || rows["results"] != 3 || rows["keys"] != 1 || rows["secrets"] != 1 || len(head.Objects) != 2 {
		t.Fatalf("the file has %v, %v", rows, err)
	}
	for _, clear := range []string{"a secret value", base64.StdEncoding.EncodeToString([]byte("a secret value")), from.key.Token, transferKey(1)} {
		if strings.Contains(file, clear) {
			t.Errorf("the file has %q", clear)
		}
	}
	if _, err := to.imports("root", transferKey(2), file); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "does not open the secrets") {
		t.Errorf("a wrong key: %v", err)
	}
	long := file + strings.Repeat(strings.Repeat("x", 1<<10)+"\n", 32<<10) // the fleet refuses it before it is sent as a whole
	if _, err := to.imports("root", transferKey(2), long); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("a wrong key for a long file: %v", err)
	}
	if _, err := to.imports("root", "", file); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
	lines := strings.SplitAfter(file, "\n")
	for _, cut := range []string{"", file[:len(file)/3], strings.Join(lines[:len(lines)-2], ""), strings.Replace(file, `"succeeded"`, `"failed"`, 1), file + "{}\n"} {
		if _, err := to.imports("root", transferKey(1), cut); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("a file of %d bytes instead of %d: %v", len(cut), len(file), err)
		}
		if j, err := to.store.Job(t.Context(), "a", from.artifact); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("a cut file: %+v, %v", j, err)
		}
	}
	for _, want := range []store.ActionOutcome{store.ActionDone, store.ActionUnchanged} {
		if done, err := to.imports("root", transferKey(1), file); err != nil || done.Outcome != want {
			t.Fatalf("%+v, %v; want %s", done, err, want)
		}
	}
	if !from.noted("export tenant", "done") || !to.noted("import tenant", "done") {
		t.Error("an action is not in the audit log")
	}
	from.copyObjects(to, head.Objects)
	to.works(from)

	// A second file of the same tenant, and a file from the target itself, are refused.
	again, err := from.export("root", transferKey(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.imports("root", transferKey(1), again); !errors.Is(err, job.ErrConflict) || !to.noted("import tenant", "failed") {
		t.Errorf("a second file: %v", err)
	}
}

// copyObjects copies objects as an operator does.
func (f *fleet) copyObjects(to *fleet, prefixes []string) {
	f.t.Helper()
	for _, prefix := range prefixes {
		for info, err := range f.objects.List(f.t.Context(), prefix) {
			if err != nil {
				f.t.Fatal(err)
			}
			r, _, err := f.objects.Get(f.t.Context(), info.Key)
			if err == nil {
				_, err = to.objects.Put(f.t.Context(), info.Key, r)
				_ = r.Close()
			}
			if err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// works checks that the moved key reads the moved history and submits jobs.
func (f *fleet) works(from movable) {
	t := f.t
	t.Helper()
	a := f.client(client.WithToken(from.key.Token))
	deadline, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for deadline.Err() == nil {
		if _, err := a.Batch(t.Context(), from.batch, 0); !errors.Is(err, api.ErrUnauthorized) {
			break
		}
	}
	if b, err := a.Batch(t.Context(), from.batch, 0); err != nil || b.Outcomes[job.Failed] != 1 || b.Outcomes[job.Succeeded] != 1 {
		t.Errorf("batch: %+v, %v", b, err)
	}
	if code, got := f.do("GET", "/v1/jobs/"+string(from.artifact)+"/artifacts/workspace/out/a%20b.html", "", "Authorization", "Bearer "+from.key.Token); code.StatusCode != http.StatusOK || !strings.Contains(got, "alert(1)") {
		t.Errorf("artifact: %d %s", code.StatusCode, got)
	}
	if k, err := secret.New(transferKey(7), f.store); err != nil {
		t.Error(err)
	} else if v, err := k.Open(t.Context(), "a", "S"); err != nil || v != "a secret value" {
		t.Errorf("secret: %q, %v", v, err)
	}
	if r, err := a.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}}); err != nil || r.Outcome != job.Succeeded {
		t.Errorf("a new job: %+v, %v", r, err)
	}
}

// TestLiveTenantStays: a tenant with unfinished work, and an unknown tenant, are not exported. Operators and tenants may
// neither export nor import.
func TestLiveTenantStays(t *testing.T) {
	t.Parallel()
	from := newMovable(t)
	file, err := from.export("root", transferKey(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"key-a", "op", from.key.Token} {
		if _, err := from.export(token, transferKey(1)); !errors.Is(err, job.ErrRefused) {
			t.Errorf("an export by %s: %v", token, err)
		}
		if _, err := from.imports(token, transferKey(1), file); !errors.Is(err, job.ErrRefused) {
			t.Errorf("an import by %s: %v", token, err)
		}
	}
	if _, err := from.client(client.WithToken("key-a")).Submit(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "hang"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := from.export("root", transferKey(1)); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "1 unfinished jobs") || !from.noted("export tenant", "failed") {
		t.Errorf("a live tenant: %v", err)
	}
	err = from.client(client.WithToken("root")).Admin().ExportTenant(t.Context(), client.Transfer{Tenant: "none"}, io.Discard)
	if !errors.Is(err, job.ErrNotFound) {
		t.Errorf("an unknown tenant: %v", err)
	}
}

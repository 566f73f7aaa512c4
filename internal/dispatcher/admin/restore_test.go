package admin_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is an Admin with a real database and a directory of objects.
type fixture struct {
	*testing.T
	store   *postgres.Store
	objects *object.Store
	admin   *admin.Admin
}

func open(t *testing.T, dsn, dir string) *fixture {
	t.Helper()
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	o, err := object.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return &fixture{t, s, o, &admin.Admin{Store: s, Objects: o, Wake: func() {}, Stop: func(string, store.LeaseRef) error { return nil },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) mustBe(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("got %v, want %v", err, want)
	}
}

// submit creates a batch of two jobs; with over they are canceled.
func (f *fixture) submit(over bool) (batch job.ID, jobs []job.ID) {
	f.Helper()
	b := store.NewBatch{ID: job.NewID(), Tenant: "t"}
	var ns []store.NewJob
	for range 2 {
		n := store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)}
		ns, jobs = append(ns, n), append(jobs, n.ID)
	}
	_, err := f.store.SubmitBatch(f.Context(), b, ns)
	f.must(err)
	if over {
		_, err = f.store.CancelBatch(f.Context(), b.ID)
		f.must(err)
	}
	return b.ID, jobs
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// TestRestoreRevokesAndErasesAgain checks that revocations and erasures after a dump are repeated when the dump is
// restored, and that other work stays.
func TestRestoreRevokesAndErasesAgain(t *testing.T) {
	t.Parallel()
	dir, dsn := t.TempDir(), testenv.Postgres(t)
	f := open(t, dsn, dir)
	ctx := t.Context()
	root := identity.Identity{Tenant: "t", Role: identity.Admin, Name: "root"}
	var keys []job.ID
	for _, name := range []string{"revoked", "kept"} {
		k := store.LiveKey{Hash: sha256.Sum256([]byte(name)), Key: store.Key{ID: job.NewID(), Name: name, Tenant: "t", Role: "submitter", CreatedBy: "root"}}
		_, err := f.store.PutKey(ctx, &store.Action{ID: job.NewID(), Actor: "root", Action: "make key", Subject: string(k.ID)}, k)
		f.must(err)
		keys = append(keys, k.ID)
	}
	erasedBatch, _ := f.submit(true)
	late, _ := f.submit(false) // ends after the dump
	kept, jobs := f.submit(true)

	dump := filepath.Join(t.TempDir(), "dump.sql")
	run(t, "pg_dump", "--no-owner", "--no-privileges", "--file="+dump, dsn)

	_, err := f.admin.RevokeKey(ctx, root, "", keys[0], "leaked")
	f.must(err)
	_, err = f.store.CancelBatch(ctx, late)
	f.must(err)
	for _, b := range []job.ID{erasedBatch, late} {
		_, err = f.admin.EraseBatch(ctx, admin.Actor{Name: "root"}, "t", b)
		f.must(err)
	}
	_, err = f.admin.EraseJob(ctx, admin.Actor{Name: "root"}, "t", jobs[0])
	f.must(err)
	_, err = f.admin.EraseJob(ctx, admin.Actor{Name: "root"}, "t", job.NewID()) // fails; no such job
	f.mustBe(err, job.ErrNotFound)
	if _, err = f.admin.EraseBatch(ctx, admin.Actor{Name: "root"}, "t", func() job.ID { b, _ := f.submit(false); return b }()); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a batch that is not over: %v", err)
	}
	f.must(f.admin.Reapply(ctx)) // the same history: nothing to repeat

	other := testenv.Postgres(t)
	run(t, "psql", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+other, "--file="+dump)
	f = open(t, other, dir)
	if h, err := f.store.Restored(ctx); err != nil || h == "" {
		t.Fatalf("the restore is not noticed: %q, %v", h, err)
	}
	if k, err := f.store.Key(ctx, "t", keys[0]); err != nil || k.RevokedAt != nil {
		t.Fatalf("the dump does not have the key: %+v, %v", k, err)
	}
	f.must(f.admin.Reapply(ctx))
	if k, err := f.store.Key(ctx, "t", keys[0]); err != nil || k.RevokedAt == nil {
		t.Errorf("the revoked key is good again: %+v, %v", k, err)
	}
	if k, err := f.store.Key(ctx, "t", keys[1]); err != nil || k.RevokedAt != nil {
		t.Errorf("the other key: %+v, %v", k, err)
	}
	for _, b := range []job.ID{erasedBatch, late} {
		_, err = f.store.Batch(ctx, "t", b)
		f.mustBe(err, job.ErrNotFound)
	}
	_, err = f.store.Job(ctx, "t", jobs[0])
	f.mustBe(err, job.ErrNotFound)
	_, err = f.store.Job(ctx, "t", jobs[1])
	f.must(err)
	if b, err := f.store.Batch(ctx, "t", kept); err != nil || b.Total != 1 {
		t.Errorf("the other batch: %+v, %v", b, err)
	}
	if h, err := f.store.Restored(ctx); err != nil || h != "" {
		t.Errorf("after it: %q, %v", h, err)
	}
	actions, err := f.store.Actions(ctx, store.ActionQuery{Actor: "restore", Limit: 10})
	done := 0
	for _, a := range actions {
		if a.Outcome == store.ActionDone {
			done++
		}
	}
	if err != nil || done != 4 {
		t.Errorf("%d records of what was done again, want 4: %+v, %v", done, actions, err)
	}
}

// TestNoteThatCannotBeWritten checks that a key is not revoked if its note cannot be written.
func TestNoteThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, testenv.Postgres(t), dir)
	k := store.LiveKey{Hash: sha256.Sum256([]byte("k")), Key: store.Key{ID: job.NewID(), Name: "k", Tenant: "t", Role: "submitter", CreatedBy: "root"}}
	_, err := f.store.PutKey(t.Context(), &store.Action{ID: job.NewID(), Actor: "root", Action: "make key", Subject: string(k.ID)}, k)
	f.must(err)
	f.must(os.WriteFile(filepath.Join(dir, "fleet.gone"), nil, 0o600)) // in the way of the directory
	root := identity.Identity{Tenant: "t", Role: identity.Admin, Name: "root"}
	if _, err = f.admin.RevokeKey(t.Context(), root, "", k.ID, ""); err == nil {
		t.Error("it is revoked without a note")
	}
}

// twice is a store from which another dispatcher erases first, at the same time.
type twice struct{ admin.Store }

func (s twice) EraseJob(ctx context.Context, a *store.Action, tenant string, id job.ID) error {
	if err := s.Store.EraseJob(ctx, a, tenant, id); err != nil {
		return err
	}
	return s.Store.EraseJob(ctx, a, tenant, id)
}

func (s twice) EraseBatch(ctx context.Context, a *store.Action, tenant string, id job.ID) error {
	if err := s.Store.EraseBatch(ctx, a, tenant, id); err != nil {
		return err
	}
	return s.Store.EraseBatch(ctx, a, tenant, id)
}

// partly is a store that fails after it has erased jobs of a batch.
type partly struct{ admin.Store }

func (s partly) EraseBatch(context.Context, *store.Action, string, job.ID) error {
	return errors.New("no")
}

// TestNotesOfFailedErasures checks that a failed erasure keeps its note: jobs may be gone, and another erasure has
// the same note.
func TestNotesOfFailedErasures(t *testing.T) {
	t.Parallel()
	f := open(t, testenv.Postgres(t), t.TempDir())
	who := admin.Actor{Name: "root"}
	notes := func() (n int) {
		for _, err := range f.objects.List(t.Context(), "fleet.gone/") {
			f.must(err)
			n++
		}
		return n
	}
	_, jobs := f.submit(true)
	f.admin.Store = twice{f.store}
	_, err := f.admin.EraseJob(t.Context(), who, "t", jobs[0])
	f.mustBe(err, job.ErrNotFound)
	if n := notes(); n != 1 {
		t.Errorf("%d notes after two erasures of a job at the same time, want 1", n)
	}
	batch, _ := f.submit(true)
	_, err = f.admin.EraseBatch(t.Context(), who, "t", batch)
	f.mustBe(err, job.ErrNotFound)
	if n := notes(); n != 2 {
		t.Errorf("%d notes after two erasures of a batch at the same time, want 2", n)
	}
	batch, jobs = f.submit(true)
	f.admin.Store = partly{f.store}
	if _, err = f.admin.EraseBatch(t.Context(), who, "t", batch); err == nil {
		t.Error("a failed erasure succeeded")
	}
	_, err = f.store.Job(t.Context(), "t", jobs[0])
	f.mustBe(err, job.ErrNotFound)
	if n := notes(); n != 3 {
		t.Errorf("%d notes after an erasure of a part, want 3", n)
	}
}

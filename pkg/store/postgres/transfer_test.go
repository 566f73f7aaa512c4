package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// moved is a row of an export.
type moved struct{ table, row string }

// exported returns all rows of a tenant.
func exported(t *testing.T, s *Store, tenant string) (rows []moved) {
	t.Helper()
	if err := s.ExportTenant(t.Context(), tenant, func(table string, raw []byte) error {
		rows = append(rows, moved{table, string(raw)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// importer imports rows as internal/dispatcher/admin does, some at a time.
type importer struct {
	*Store
	id   job.ID
	some int
}

func (i importer) from(ctx context.Context, rows []moved) error {
	begun, err := i.BeginImport(ctx, store.Import{ID: i.id, Fleet: "other", Tenant: "t"})
	if err != nil {
		return err
	}
	if begun.Finished != nil {
		return i.FinishImport(ctx, nil, i.id, begun.Rows, nil)
	}
	var n int64
	var chunk, keys []json.RawMessage
	for at, r := range rows {
		if r.table == store.KeysTable {
			keys = append(keys, json.RawMessage(r.row))
			continue
		}
		if n++; n <= begun.Rows {
			continue
		}
		chunk = append(chunk, json.RawMessage(r.row))
		if len(chunk) < i.some && at+1 < len(rows) && rows[at+1].table == r.table {
			continue
		}
		if err := i.ImportRows(ctx, i.id, n-int64(len(chunk)), r.table, chunk); err != nil {
			return err
		}
		chunk = nil
	}
	return i.FinishImport(ctx, nil, i.id, n, keys)
}

// fill gives tenant t rows in every table that moves.
func fill(t *testing.T, s *Store) (batch, single job.ID) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.PutTenant(ctx, store.Tenant{Name: "t", Weight: 2.5, MaxRunning: 7, LabelCaps: job.LabelCaps{"run": 3}, Ceiling: json.RawMessage(`{"wall":"1h"}`)}))
	must(s.PutPolicy(ctx, nil, "t", "p", json.RawMessage(`{"wall":"1s"}`)))
	must(s.PutPolicy(ctx, nil, "t", "p", json.RawMessage(`{"wall":"2s"}`)))
	must(s.PutSecret(ctx, nil, store.SecretRef{Tenant: "t", Name: "S"}, []byte{0, 1, 255}))
	for i, role := range []string{"reader", "submitter", "admin"} {
		_, err := s.PutKey(ctx, nil, store.LiveKey{Key: store.Key{ID: job.NewID(), Tenant: "t", Name: role, Role: role, CreatedBy: "t"}, Hash: store.KeyHash{byte(i)}})
		must(err)
	}
	newJob := func(n int) store.NewJob {
		return store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: fmt.Appendf(nil, `{"name":"ü \\u0000 \"%d\""}`, n), MaxAttempts: 2}
	}
	var jobs []store.NewJob
	for n := range 7 {
		jobs = append(jobs, newJob(n))
	}
	batch, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "t", Name: "b", Labels: map[string]string{"a": "b"}, Lease: time.Hour,
		Callback: &job.Callback{URL: "https://example.com/"}, Idempotency: store.Idempotency{Key: "k", Hash: "h"}}, jobs)
	must(err)
	single, _, err = s.SubmitJob(ctx, newJob(8), store.Idempotency{}, 0)
	must(err)
	for release := []store.Release(nil); ; {
		ds, err := s.Schedule(ctx, []string{"p"}, 100)
		must(err)
		if len(ds) == 0 {
			break
		}
		var claims []store.Claim
		for _, d := range ds {
			claims = append(claims, store.Claim{Ref: d.Ref, Worker: "w"})
		}
		got, err := s.Claim(ctx, time.Minute, claims)
		must(err)
		if release == nil { // one attempt more
			release = []store.Release{{LeaseRef: store.LeaseRef{Job: got[0].Job, Lease: got[0].Lease}, Worker: "w", Reason: job.ReasonDrained, Message: "m"}}
			must(s.Release(ctx, release))
			got = got[1:]
		}
		var ends []store.Finish
		for n, c := range got {
			o := []job.Outcome{job.Succeeded, job.Failed}[n%2]
			ends = append(ends, store.Finish{Worker: "w", LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, BatchID: c.BatchID, Outcome: o,
				Result: fmt.Appendf(nil, `{"id":%q,"outcome":%q,"stdout":{"text":"%s"}}`, c.Job, o, strings.Repeat("x", n))})
		}
		_, err = s.Finish(ctx, ends)
		must(err)
	}
	v := job.Session{ID: job.NewID(), Worker: "w", Spec: job.SessionSpec{Name: "s"}}
	must(s.PutSession(ctx, "t", v, 0))
	for n := range 3 {
		must(s.PutExecute(ctx, store.Executed{Session: v.ID, ID: job.NewID(), Code: fmt.Sprint(n), Result: json.RawMessage(`{"value":1}`)}))
	}
	_, err = s.EndSession(ctx, v.ID, "w", job.Succeeded, "")
	must(err)
	p := &past{T: t, Store: s}
	p.exec(`UPDATE callbacks SET delivered_at = now()`)
	p.exec(`INSERT INTO executes (session_id, id, code, result, seq) SELECT $1::uuid, gen_random_uuid(), '', '{}', 3 + g / 2 FROM generate_series(1, 1100) g`, string(v.ID)) // more than a page
	p.exec(`INSERT INTO policies SELECT tenant_id, name || g % 3, 1 + g / 3, policy FROM policies, generate_series(1, 600) g WHERE version = 1`)
	if u, err := s.Unfinished(ctx, "t"); err != nil || u != (store.Unfinished{}) {
		t.Fatalf("unfinished: %+v, %v", u, err)
	}
	return batch, single
}

// portable returns rows without the columns that each fleet sets by itself.
func portable(rows []moved) (out []moved) {
	for _, r := range rows {
		if r.table == store.KeysTable {
			before, after, _ := strings.Cut(r.row, `"changed":`)
			r.row = before + strings.TrimLeft(after, "0123456789")
		}
		out = append(out, r)
	}
	return out
}

func TestMoveTenant(t *testing.T) {
	t.Parallel()
	from, to := openTest(t, Config{}), openTest(t, Config{})
	batch, single := fill(t, from)
	if _, err := to.Tenant(t.Context(), "other"); err != nil || to.PutTenant(t.Context(), store.Tenant{Name: "other"}) != nil {
		t.Fatal(err)
	}
	rows := exported(t, from, "t")
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.table]++
	}
	want := map[string]int{"tenants": 1, "policies": 602, "secrets": 1, "idempotency_keys": 1, "batches": 1, "batch_counts": 1, "batch_leases": 1, "callbacks": 1,
		"sessions": 1, "executes": 1103, "jobs": 8, "specs": 8, "attempts": 1, "results": 8, "keys": 2}
	for table, n := range want {
		if seen[table] < n {
			t.Errorf("%d rows of %s, want %d", seen[table], table, n)
		}
	}
	i := importer{to, job.NewID(), 50}
	for range 2 { // the second import changes nothing
		if err := i.from(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(portable(rows), portable(exported(t, to, "t")), cmp.AllowUnexported(moved{})); diff != "" {
		t.Errorf("the import differs (-source +target):\n%s", diff)
	}
	for _, id := range []job.ID{single} {
		a, _ := from.Result(t.Context(), "t", id)
		if b, err := to.Result(t.Context(), "t", id); err != nil || string(a) != string(b) {
			t.Errorf("result of %s: %s, %v; want %s", id, b, err, a)
		}
	}
	if b, err := to.Batch(t.Context(), "t", batch); err != nil || b.Total != 7 || b.Outcomes[job.Succeeded]+b.Outcomes[job.Failed] != 7 {
		t.Errorf("batch: %+v, %v", b, err)
	}
	if _, err := to.Batch(t.Context(), "other", batch); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("another tenant sees the batch: %v", err)
	}
	if news, err := to.KeyNews(t.Context(), store.KeyMark{}); err != nil || len(news.Keys) != 2 || news.Keys[0].Tenant != "t" {
		t.Errorf("keys: %+v, %v", news, err)
	}
	// The tenant works in its new fleet.
	if _, _, err := to.SubmitJob(t.Context(), store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
		t.Error(err)
	}
}

// TestImportGoesOn: an interrupted import is invisible, and continues where it was interrupted.
func TestImportGoesOn(t *testing.T) {
	t.Parallel()
	from, to := openTest(t, Config{}), openTest(t, Config{})
	batch, _ := fill(t, from)
	rows := exported(t, from, "t")
	i := importer{to, job.NewID(), 40}
	for cut := 3; cut < len(rows); cut += 1 + cut/4 {
		ctx, cancel := context.WithCancel(t.Context())
		broken := append(append([]moved(nil), rows[:cut]...), moved{"jobs", `{`})
		if err := i.from(ctx, broken); !errors.Is(err, job.ErrInvalid) {
			t.Fatalf("a broken row: %v", err)
		}
		cancel()
		if _, err := to.Batch(t.Context(), "t", batch); !errors.Is(err, job.ErrNotFound) {
			t.Fatalf("the batch is visible: %v", err)
		}
		if news, err := to.KeyNews(t.Context(), store.KeyMark{}); err != nil || len(news.Keys) != 0 {
			t.Fatalf("keys: %+v, %v", news, err)
		}
	}
	if err := i.ImportRows(t.Context(), i.id, 1, "jobs", []json.RawMessage{[]byte(rows[0].row)}); err == nil {
		t.Error("rows out of order were accepted")
	}
	if err := i.from(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(portable(rows), portable(exported(t, to, "t")), cmp.AllowUnexported(moved{})); diff != "" {
		t.Errorf("the import differs (-source +target):\n%s", diff)
	}
}

func TestImportIsRefused(t *testing.T) {
	t.Parallel()
	from := openTest(t, Config{})
	_, single := fill(t, from)
	rows := exported(t, from, "t")
	refused := func(to *Store, id job.ID, rows []moved, kind error, text string) {
		t.Helper()
		err := importer{to, id, 100}.from(t.Context(), rows)
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want %v with %q", err, kind, text)
		}
	}
	refused(from, job.NewID(), rows, job.ErrConflict, `tenant "t" exists`)

	to := openTest(t, Config{})
	p := &past{T: t, Store: to}
	if _, _, err := to.SubmitJob(t.Context(), store.NewJob{ID: single, Tenant: "x", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	id := job.NewID()
	refused(to, id, rows, job.ErrConflict, "jobs: Key (id)=("+string(single)+") already exists")
	p.exec(`DELETE FROM jobs; DELETE FROM specs`)
	if _, err := to.PutKey(t.Context(), nil, store.LiveKey{Key: store.Key{ID: job.NewID(), Tenant: "x", Name: "k", Role: "reader", CreatedBy: "x"}}); err != nil {
		t.Fatal(err)
	}
	refused(to, id, rows, job.ErrConflict, "a key of the tenant exists")
	p.exec(`DELETE FROM keys; INSERT INTO tenants (name) VALUES ('t')`)
	refused(to, id, rows, job.ErrConflict, `tenant "t" exists`)
	p.exec(`DELETE FROM tenants WHERE name = 't'`)
	if err := (importer{to, id, 100}).from(t.Context(), rows); err != nil {
		t.Error(err)
	}

	live := openTest(t, Config{})
	refused(live, job.NewID(), []moved{{"jobs", `{"id":"` + string(single) + `","state":"queued"}`}}, job.ErrInvalid, "is not over")
	refused(live, job.NewID(), []moved{{"fleet", `{}`}}, job.ErrInvalid, `"fleet" does not move`)
}

// TestImportReplacesUnfinished: a second file of a tenant discards what an unfinished import of the first one added.
func TestImportReplacesUnfinished(t *testing.T) {
	t.Parallel()
	from, to := openTest(t, Config{}), openTest(t, Config{})
	fill(t, from)
	rows := exported(t, from, "t")
	first := importer{to, job.NewID(), 100}
	if err := first.from(t.Context(), append(rows[:len(rows)-4:len(rows)-4], moved{"jobs", `{`})); !errors.Is(err, job.ErrInvalid) {
		t.Fatal(err)
	}
	begun, err := to.BeginImport(t.Context(), store.Import{ID: first.id, Tenant: "t"})
	if err != nil || begun.Rows == 0 {
		t.Fatalf("%+v, %v", begun, err)
	}
	if err := (importer{to, job.NewID(), 100}).from(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(portable(rows), portable(exported(t, to, "t")), cmp.AllowUnexported(moved{})); diff != "" {
		t.Errorf("the import differs (-source +target):\n%s", diff)
	}
	if err := to.ImportRows(t.Context(), first.id, begun.Rows, "policies", nil); !errors.Is(err, job.ErrConflict) {
		t.Errorf("the discarded import goes on: %v", err)
	}
	if err := to.FinishImport(t.Context(), nil, first.id, begun.Rows, nil); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("the discarded import is finished: %v", err)
	}
	var tenants, imports int
	if err := to.db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tenants), (SELECT count(*) FROM imports)`).Scan(&tenants, &imports); err != nil || tenants != 1 || imports != 1 {
		t.Errorf("%d tenants, %d imports, %v", tenants, imports, err)
	}
}

// TestExportIsRefused: a tenant with unfinished work is not exported.
func TestExportIsRefused(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	none := func(string, []byte) error { return nil }
	if err := s.ExportTenant(t.Context(), "t", none); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("an unknown tenant: %v", err)
	}
	if _, err := s.Unfinished(t.Context(), "t"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("an unknown tenant: %v", err)
	}
	p := &past{T: t, Store: s}
	id := job.NewID()
	p.single(id)
	if u, err := s.Unfinished(t.Context(), "t"); err != nil || u != (store.Unfinished{Jobs: 1}) {
		t.Errorf("a queued job: %+v, %v", u, err)
	}
	if err := s.ExportTenant(t.Context(), "t", none); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), string(id)) {
		t.Errorf("a queued job: %v", err)
	}
	p.over(id, 1)
	// A job that begins and ends while the export runs.
	if err := s.ExportTenant(t.Context(), "t", func(table string, _ []byte) error {
		if table == "tenants" {
			late := job.FirstIDAt(time.Now().Add(time.Second))
			p.single(late)
			p.over(late, 0)
		}
		return nil
	}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a late job: %v", err)
	}
	p.exec(`DELETE FROM jobs`)
	if err := s.PutSession(t.Context(), "t", job.Session{ID: job.NewID(), Worker: "w"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.ExportTenant(t.Context(), "t", none); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a live session: %v", err)
	}
}

// TestForgetSeesImports: a day that was judged before an import is judged again.
func TestForgetSeesImports(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	from := openTest(t, Config{})
	old := job.FirstIDAt(p.day.Add(time.Hour))
	p.single(old)
	p.over(old, 20)
	if f, err := p.Forget(p.Context(), keptFor); err != nil || f.Days != 1 { // the second day is empty
		t.Fatalf("forgot %+v, %v", f, err)
	}
	fp := &past{t, from, p.day}
	fp.exec(`SELECT assay_partitions($1::date, 1)`, p.day)
	young := job.FirstIDAt(p.day.Add(2 * time.Hour))
	fp.single(young)
	fp.over(young, 1)
	if err := (importer{p.Store, job.NewID(), 10}).from(t.Context(), exported(t, from, "t")); !errors.Is(err, job.ErrConflict) {
		t.Fatalf("an existing tenant: %v", err)
	}
	p.exec(`UPDATE tenants SET name = 'u'`)
	if err := (importer{p.Store, job.NewID(), 10}).from(t.Context(), exported(t, from, "t")); err != nil {
		t.Fatal(err)
	}
	if f, err := p.Forget(p.Context(), 10*24*time.Hour); err != nil || f.Days != 0 {
		t.Fatalf("forgot %+v, %v", f, err)
	}
	again, err := Open(t.Context(), Config{DSN: dsnOf(p.Store)}) // the first store knows the old number of the name
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if j, err := again.Job(t.Context(), "t", young); err != nil || j.State != job.Canceled {
		t.Errorf("the imported job: %+v, %v", j, err)
	}
	p.exec(`UPDATE jobs SET ended_at = now() - interval '20 days' WHERE id = $1`, pg.UUID(young))
	p.forget(0, 0)
	if f, err := p.Forget(p.Context(), 10*24*time.Hour); err != nil || f.Days != 1 {
		t.Errorf("forgot %+v, %v", f, err)
	}
}

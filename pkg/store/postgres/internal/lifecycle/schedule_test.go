package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/turns"
)

// fleetModel is a queue of many tenants, and a scheduler that reads all of it for each look.
type fleetModel struct {
	*Transitions
	t       *testing.T
	classes []string
	tenants int32
	batches int // of each tenant
}

// fill writes a random queue.
func (m *fleetModel) fill(t *rapid.T) {
	var tenants, batches, jobs [][]any
	now := time.Now()
	one := func(what string, of int) bool { return rapid.IntRange(1, of).Draw(t, what) == 1 }
	or := func(yes bool, v any) any {
		if yes {
			return v
		}
		return nil
	}
	for tenant := int32(1); tenant <= m.tenants; tenant++ {
		tenants = append(tenants, []any{tenant, fmt.Sprint("m", tenant), rapid.SampledFrom([]float64{0.5, 1, 1, 2, 5}).Draw(t, "weight"),
			or(one("limited", 2), int32(rapid.IntRange(2, 8).Draw(t, "max running"))), or(one("capped", 2), map[string]int{"a": 2}), or(one("paused", 6), now)})
		for batch := range rapid.IntRange(0, m.batches).Draw(t, "batches") {
			id := pgtype.UUID{Valid: true}
			if single := batch == 0 && one("single", 2); !single {
				id.Bytes = modelID(len(batches) + len(jobs))
				batches = append(batches, []any{id, tenant, or(!one("open", 10), now), map[string]int{"b": 1}})
			}
			created := now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Minute)
			for range rapid.IntRange(1, 4).Draw(t, "jobs") {
				jobs = append(jobs, m.job(t, modelID(len(batches)+len(jobs)), id, tenant, now, created, one, or))
			}
		}
	}
	for _, q := range []string{`DELETE FROM jobs`, `DELETE FROM batches`, `DELETE FROM tenants`} {
		if _, err := m.db.Pool.Exec(m.t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		table string
		names []string
		rows  [][]any
	}{
		{"tenants", []string{"id", "name", "weight", "max_running", "label_caps", "paused_at"}, tenants},
		{"batches", []string{"id", "tenant_id", "sealed_at", "label_caps"}, batches},
		{"jobs", []string{"id", "batch_id", "tenant_id", "pool", "priority", "created_at", "not_before", "identity", "lane", "caps",
			"state", "dispatch_gen", "dispatched_at", "published_at", "lease", "worker", "started_at", "lease_until"}, jobs},
	} {
		if _, err := m.db.Pool.CopyFrom(m.t.Context(), pgx.Identifier{c.table}, c.names, pgx.CopyFromRows(c.rows)); err != nil {
			t.Fatalf("copy %s: %v", c.table, err)
		}
	}
}

// job returns the columns of a random job.
func (m *fleetModel) job(t *rapid.T, id turns.ID, batch pgtype.UUID, tenant int32, now, created time.Time, one func(string, int) bool, or func(bool, any) any) []any {
	var capped []store.Cap
	value := func() string { return fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "value")) }
	if one("with a label", 4) {
		capped = append(capped, store.Cap{Label: "a", Value: value()})
	}
	if batch.Bytes != (turns.ID{}) && one("with a label of the batch", 8) {
		capped = append(capped, store.Cap{Label: "b", Value: value(), Batch: true})
	}
	lane, text := format.Lane(capped)
	state := rapid.SampledFrom([]string{"queued", "queued", "queued", "queued", "running", "dispatched"}).Draw(t, "state")
	runs, lease := state == "running", int64(0)
	if runs {
		lease = 1
	}
	return []any{uuid(id), batch, tenant, m.classes[rapid.IntRange(0, len(m.classes)-1).Draw(t, "class")], int32(rapid.IntRange(-2, 2).Draw(t, "priority")),
		created, or(one("waits", 8), now.Add(time.Hour)), "", lane, text,
		state, int32(1), now, now, lease, or(runs, "w"), or(runs, now), or(runs, now)}
}

// modelID returns the nth id.
func modelID(n int) (id turns.ID) {
	id[0], id[13], id[14], id[15] = 1, byte(n>>16), byte(n>>8), byte(n)
	return id
}

// modelRow is an unfinished job.
type modelRow struct {
	id, batch  pgtype.UUID
	tenant     int32
	priority   int32
	caps       *string
	state      string
	allowed    bool // by its tenant and its batch
	runnable   bool
	age        int64 // milliseconds
	weight     float64
	maxRunning int
	tenantCaps job.LabelCaps
	batchCaps  job.LabelCaps
}

func (m *fleetModel) rows(t *rapid.T) []modelRow {
	rows, err := m.db.Pool.Query(m.t.Context(), `
		SELECT j.id, j.batch_id, j.tenant_id, j.priority, j.caps, j.state,
			t.paused_at IS NULL AND (b.id IS NULL OR b.sealed_at IS NOT NULL), j.not_before IS NULL OR j.not_before <= now(),
			(1000 * extract(epoch FROM now() - j.created_at))::bigint, t.weight, coalesce(t.max_running, 0), t.label_caps, b.label_caps
		FROM jobs j JOIN tenants t ON t.id = j.tenant_id LEFT JOIN batches b ON b.id = j.batch_id ORDER BY j.id`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r modelRow, err error) {
		return r, row.Scan(&r.id, &r.batch, &r.tenant, &r.priority, &r.caps, &r.state, &r.allowed, &r.runnable, &r.age, &r.weight, &r.maxRunning, &r.tenantCaps, &r.batchCaps)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// picks returns the jobs that a look at the window should dispatch.
func (m *fleetModel) picks(t *rapid.T, window int) (ids []job.ID) {
	rows, now := m.rows(t), time.Now()
	r := turns.Rules{Places: window, Quantum: max((window+batchesAbreast-1)/batchesAbreast, 1), AgeEvery: m.cfg.AgeEvery, Room: map[string]int{}}
	tenants, groups := map[int32]*turns.Tenant{}, map[string]*turns.Group{}
	held, batchHeld, capHeld := map[int32]int{}, map[string]int{}, map[string]int{}
	batchKey := func(j modelRow) string { return fmt.Sprint(j.tenant, j.batch) }
	for _, j := range rows {
		if j.state == "queued" {
			continue
		}
		held[j.tenant]++
		batchHeld[batchKey(j)]++
		for _, line := range lines(j.caps) {
			capHeld[capKey(j.tenant, j.batch.Bytes, line)]++
		}
		if j.state == "dispatched" {
			r.Places--
		}
	}
	for _, j := range rows {
		if j.state != "queued" || !j.allowed {
			continue
		}
		tenant := tenants[j.tenant]
		if tenant == nil {
			tenant = &turns.Tenant{ID: j.tenant, Weight: j.weight, MaxRunning: j.maxRunning, Held: held[j.tenant]}
			if w := m.queues.tenants[j.tenant]; w != nil {
				tenant.Waits = now.Sub(w.since)
			}
			tenants[j.tenant] = tenant
		}
		key := fmt.Sprint(batchKey(j), j.priority)
		g := groups[key]
		if g == nil {
			g = &turns.Group{Batch: j.batch.Bytes, Priority: j.priority, Age: time.Duration(j.age) * time.Millisecond, Held: batchHeld[batchKey(j)], Sources: []*turns.Source{{}}}
			groups[key] = g
			tenant.Groups = append(tenant.Groups, g)
		}
		g.Age = max(g.Age, time.Duration(j.age)*time.Millisecond)
		if !j.runnable {
			continue
		}
		queued := turns.Job{ID: j.id.Bytes}
		for _, line := range lines(j.caps) {
			k, limits := capKey(j.tenant, j.batch.Bytes, line), j.tenantCaps
			if strings.HasPrefix(line, "b") {
				limits = j.batchCaps
			}
			if most, capped := limits[strings.Split(line, "\t")[1]]; capped {
				r.Room[k] = most - capHeld[k]
			}
			queued.Caps = append(queued.Caps, k)
		}
		g.Sources[0].Jobs = append(g.Sources[0].Jobs, queued)
	}
	picks, short := turns.Fill(r, slices.SortedFunc(maps.Values(tenants), func(a, b *turns.Tenant) int { return cmp.Compare(a.ID, b.ID) }))
	if len(short) > 0 {
		t.Fatalf("the model is short of %v", short)
	}
	for _, p := range picks {
		ids = append(ids, pg.JobID(uuid(p.Job)))
	}
	return ids
}

func lines(caps *string) []string {
	if caps == nil {
		return nil
	}
	return strings.Split(*caps, "\n")
}

// TestLookEqualsModel compares looks, which read little, with a model that reads everything. The queue has 20
// tenants of up to 50 batches, with weights, limits, label caps, priorities, ages, classes, pauses, open
// uploads and retries that wait. Between looks some running jobs end.
func TestLookEqualsModel(t *testing.T) {
	s := openTest(t)
	s.cfg.AgeEvery = time.Minute
	m := &fleetModel{Transitions: s, t: t, classes: []string{"p", "p?memory=1Gi"}, tenants: 20, batches: 50}
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		if run++; run > 8 {
			return // each takes a second
		}
		m.queues, m.rounds = newQueues(), rounds{}
		m.queues.cheap, m.queues.skipped = time.Hour, 1_000_000 // the model has no limits and no memory
		lazy := rapid.Bool().Draw(t, "lazy")
		if !lazy {
			m.queues.least = 1000
		}
		m.fill(t)
		for range 6 {
			dispatched := 0
			if err := s.db.Pool.QueryRow(m.t.Context(), `SELECT count(*) FROM jobs WHERE state = 'dispatched'`).Scan(&dispatched); err != nil {
				t.Fatal(err)
			}
			window := dispatched + rapid.IntRange(0, 16).Draw(t, "places")
			s.db.News.Requeued() // jobs that end make room for jobs whose labels are capped
			want := m.picks(t, window)
			ds, _, err := s.scheduleOnce(m.t.Context(), m.classes, window)
			if err != nil {
				t.Fatal(err)
			}
			var got []job.ID
			for _, d := range ds {
				got = append(got, d.Job)
			}
			if lazy { // the first job of a batch in two classes depends on the order of reading
				if len(got) != len(want) {
					t.Fatalf("%d places: dispatched %d, want %d", window-dispatched, len(got), len(want))
				}
			} else if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("dispatched at %d places (-model +look):\n%s", window-dispatched, diff)
			}
			if _, err := s.db.Pool.Exec(m.t.Context(), `DELETE FROM jobs WHERE state <> 'queued' AND abs(hashtext(id::text)) % 3 = $1`, rapid.IntRange(0, 2).Draw(t, "which end")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// queueOf writes n tenants with some batches each, of some jobs each.
func queueOf(t *testing.T, s *Transitions, n, batches, jobs int) {
	t.Helper()
	for _, q := range []string{
		`DELETE FROM jobs`, `DELETE FROM batches`, `DELETE FROM tenants`,
		fmt.Sprintf(`INSERT INTO tenants (name) SELECT 't' || g FROM generate_series(1, %d) g`, n),
		fmt.Sprintf(`INSERT INTO batches (id, tenant_id, sealed_at) SELECT lpad(to_hex(row_number() OVER (ORDER BY g, t.id)), 32, '0')::uuid, t.id, now()
			FROM tenants t, generate_series(1, %d) g`, batches),
		fmt.Sprintf(`INSERT INTO jobs (id, batch_id, tenant_id, pool, identity) SELECT (left(b.id::text, 1) || '1' || right(md5(b.id::text), 20) || lpad(to_hex(g), 10, '0'))::uuid, b.id, b.tenant_id, 'p', ''
			FROM batches b, generate_series(1, %d) g`, jobs),
		`VACUUM ANALYZE jobs`, `VACUUM ANALYZE batches`, `ANALYZE tenants`,
	} {
		if _, err := s.db.Pool.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// lookReads returns the mean number of blocks that a look at a window reads. Unlike time, it is the same on a
// busy machine. The store has one connection, which counts them.
func lookReads(t *testing.T, s *Transitions, places int) float64 {
	t.Helper()
	const looks, before = 5, 2
	counted := func() (n int64) {
		if _, err := s.db.Pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Pool.QueryRow(t.Context(), `SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var sum int64
	for look := range before + looks {
		from := counted()
		ds, _, err := s.scheduleOnce(t.Context(), []string{"p"}, places)
		if err != nil || len(ds) != places {
			t.Fatalf("%d dispatched, %v; want %d", len(ds), err, places)
		}
		if look >= before {
			sum += counted() - from
		}
		if _, err := s.db.Pool.Exec(t.Context(), `DELETE FROM jobs WHERE state = 'dispatched'`); err != nil {
			t.Fatal(err)
		}
	}
	return float64(sum) / looks
}

// TestLookReadsWhatItFills looks at queues of one tenant and of many. The blocks that a look reads follow the
// places in its window, not the tenants.
func TestLookReadsWhatItFills(t *testing.T) {
	s := openOne(t)
	reads := map[[2]int]float64{}
	for _, n := range []int{1, 1000} {
		queueOf(t, s, n, 1000/n, 5)
		s.queues = newQueues()
		s.queues.cheap = time.Hour // no visit is saved because this machine is slow
		for _, places := range []int{16, 100} {
			reads[[2]int{n, places}] = lookReads(t, s, places)
		}
	}
	for _, places := range []int{16, 100} {
		one, many := reads[[2]int{1, places}], reads[[2]int{1000, places}]
		t.Logf("%d places: %.0f blocks with one tenant, %.0f with 1,000", places, one, many)
		if many > 4*one { // 3.1 and 2.2; a look that read each tenant would need 20 times as many
			t.Errorf("a look at %d places reads %.0f blocks with 1,000 tenants, and %.0f with one", places, many, one)
		}
	}
}

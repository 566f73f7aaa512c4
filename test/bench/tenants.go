package main

import (
	"context"
	"fmt"
	"time"
)

const (
	manyTenants   = 5_000
	tenantBatches = 5_000 // of all tenants together
	tenantJobs    = 20    // of each batch
)

// tenants measures the control plane alone (see noop) while batches of one tenant wait, and while
// batches of 5,000 tenants, or -n, wait. The number of batches and jobs is the same. "ratio" is the
// rate with many tenants to the mean rate with one, before and after. "look_ratio" is the same for
// the CPU time of a scheduler pass, including Postgres, at its worst number of places.
func tenants(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	db, err := t.database()
	if err != nil {
		return nil, err
	}
	b.logf("warming up")
	if _, err := t.runBatch(ctx, pythonJob("task"), 4000); err != nil {
		return nil, err
	}
	many := manyTenants
	if b.n > 0 {
		many = b.n
	}
	rates := map[int][]float64{}
	for _, n := range []int{1, many, 1} {
		b.logf("%d tenants", n)
		if err := db.Run(ctx, liveTenants(n, "")); err != nil {
			return nil, fmt.Errorf("make batches of %d tenants: %w", n, err)
		}
		got, _, err := t.recordingRate(ctx)
		if err != nil {
			return nil, err
		}
		rates[n] = append(rates[n], got)
		if err := db.Run(ctx, endBatches); err != nil {
			return nil, fmt.Errorf("remove batches of %d tenants: %w", n, err)
		}
	}
	looks, err := lookCosts(ctx, b, db, many)
	if err != nil {
		return nil, err
	}
	r = Report{"tenants": many, "jobs": tenantBatches * tenantJobs, "jobs_per_s_by_tenants": rates,
		"jobs_per_s": Mean(rates[many]), "ratio": Round(Mean(rates[many])/Mean(rates[1]), 3)}
	worst := 0.0
	for places, ms := range looks {
		r[fmt.Sprintf("look_cpu_ms_%d", places)] = ms
		worst = max(worst, ms[1]/ms[0])
	}
	r["look_ratio"] = Round(worst, 3)
	return r, nil
}

// liveTenants writes the batches of n tenants into the queue, copied from the last job that ended,
// in one transaction. With a class, the jobs have that class, which no worker runs. Like those of
// groups, the batches are marked by their name.
func liveTenants(n int, class string) []string {
	ms := time.Now().UnixMilli()
	batch := fmt.Sprintf(`(lpad(to_hex(%d::bigint), 12, '0') || '70008' || lpad(to_hex(g), 15, '0'))::uuid`, ms)
	id := fmt.Sprintf(`(lpad(to_hex(%d::bigint), 12, '0') || '70018' || lpad(to_hex(g::bigint * %d + l), 15, '0'))::uuid`, ms, tenantJobs)
	pool := `pool`
	if class != "" {
		pool = "'" + class + "'"
	}
	return []string{fmt.Sprintf(`BEGIN;
INSERT INTO tenants (name) SELECT 'bench-' || g FROM generate_series(0, %[5]d - 1) g ON CONFLICT DO NOTHING;
CREATE TEMPORARY TABLE model ON COMMIT DROP AS SELECT j.pool, j.identity, s.spec FROM jobs j JOIN specs s ON s.id = j.id WHERE j.state = 'finished' LIMIT 1;
CREATE TEMPORARY TABLE whose ON COMMIT DROP AS SELECT g, (SELECT id FROM tenants WHERE name = 'bench-' || g %% %[5]d) AS tenant_id FROM generate_series(1, %[3]d) g;
INSERT INTO batches (id, tenant_id, name, sealed_at) SELECT %[1]s, tenant_id, 'groups', now() FROM whose;
INSERT INTO batch_counts (batch_id, total) SELECT %[1]s, %[4]d FROM whose;
INSERT INTO specs (id, spec) SELECT %[2]s, spec FROM model, whose, generate_series(0, %[4]d - 1) l;
INSERT INTO jobs (id, batch_id, tenant_id, pool, identity) SELECT %[2]s, %[1]s, tenant_id, %[6]s, identity FROM model, whose, generate_series(0, %[4]d - 1) l;
COMMIT`, batch, id, tenantBatches, tenantJobs, n, pool), `VACUUM ANALYZE jobs`, `VACUUM ANALYZE batches`, `ANALYZE tenants`}
}

// looksClass is a class that no worker runs, so the fleet's scheduler ignores it.
const looksClass = "bench-looks"

// lookPlaces are the numbers of places that a scheduler pass fills.
var lookPlaces = []int{16, 100, 500, 2000}

// lookCosts returns the CPU time of a scheduler pass in milliseconds, with one tenant and with
// many, by places.
func lookCosts(ctx context.Context, b *bench, db databaseURL, many int) (map[int][2]float64, error) {
	costs := map[int][2]float64{}
	for i, n := range []int{1, many} {
		b.logf("looks with %d tenants", n)
		if err := db.Run(ctx, liveTenants(n, looksClass)); err != nil {
			return nil, fmt.Errorf("make batches of %d tenants: %w", n, err)
		}
		for _, places := range lookPlaces {
			ms, err := lookCost(ctx, db, places)
			if err != nil {
				return nil, err
			}
			c := costs[places]
			c[i] = Round(ms, 3)
			costs[places] = c
		}
		if err := db.Run(ctx, endBatches); err != nil {
			return nil, err
		}
	}
	return costs, nil
}

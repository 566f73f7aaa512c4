package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// plannedCase is a statement and what its plan has to have.
type plannedCase struct {
	name, sql string
	args      string
	want      []string // all of these
	pkeyOnly  bool     // every lookup by id is in a primary key
}

// lookupByID is a lookup by id in a plan.
const lookupByID = `Index Cond: \(\(?(id >= [^ ]*\) AND \()?id = `

// planned are the statements of the hot paths.
func planned() []plannedCase {
	const low = `'00000000-0000-0000-0000-000000000000'`
	tier := `_pool_tenant_id_expr_batch_id_lane_id_idx`
	byID, queue := lookupByID, `_pool_tenant_id_batch_id_priority_lane_id_idx`
	return []plannedCase{
		{name: "claim", sql: claim, args: `1, ` + low + `, '{}', '{}', '{}', '{}', 2`, want: []string{byID}, pkeyOnly: true},
		{name: "claim one", sql: claimOne, args: `1, ` + low + `, 1, '', now(), 2`, want: []string{byID}, pkeyOnly: true},
		{name: "claim suspect", sql: claimSuspect, args: `1, ` + low + `, 1, '', now(), 2`, want: []string{byID}, pkeyOnly: true},
		{name: "suspects", sql: suspects, args: low + `, '{}', '{}', 2`, want: []string{byID}, pkeyOnly: true},
		{name: "reclaim", sql: reclaim, args: `1, ` + low + `, '{}', '{}', '{}', '{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "heartbeat", sql: heartbeat, args: `1, ` + low + `, '{}', '{}', '{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "finish", sql: finish, args: low + `, '{}', '{}', '{}', '{}', '{}'`, want: []string{byID, `batch_counts_pkey`}, pkeyOnly: true},
		{name: "finish one", sql: finishOne, args: low + `, 1, '', '', ''`, want: []string{byID}, pkeyOnly: true},
		{name: "finished", sql: finished, args: `'{}', '{}', '{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "release", sql: release, args: `1, 100, 3, 1, '{}', '{}', '{}', '{}', '{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "schedule", sql: schedule, args: `'{p,q}', 10, 60000, '{}'`, want: []string{byID, tier + `.*\n *Index Cond: .*pool = t.pool`, tier + `.*\n *Index Cond: .*\(- priority\) = .*ROW\(`, queue + `.*\n *Index Cond: .*priority = r(_[0-9]+)?.priority`, queue + `.*\n *Index Cond: .*lane > l.lane`}, pkeyOnly: true},
		{name: "queue, waiting", sql: queued, args: ``, want: []string{queue + `.*\n *Index Cond: .*pool = heads.pool`, `tenants_pkey`}},
		{name: "queue, under way", sql: underway, args: ``, want: []string{`_tenant_id_batch_id_idx`, `_tenant_id_batch_id_idx1`}},
		{name: "queue, outstanding", sql: outstanding, args: ``, want: []string{`batch_counts_live|batch_counts_batch_id_idx`, `batches_pkey`}},
		{name: "pools of a tenant", sql: poolsOf, args: `1`, want: []string{queue + `.*\n *Index Cond: .*pool = p.pool.* AND .*tenant_id = 1|` + queue + `.*\n *Index Cond: .*pool = p.pool.* AND .*tenant_id = \$1`}},
		{name: "unclaimed", sql: unclaimed, args: `1, 10`, want: []string{byID}, pkeyOnly: true},
		{name: "take back", sql: releaseExpired, args: `20, 100, 3, 1`, want: []string{byID, `_tenant_id_batch_id_idx1`}, pkeyOnly: true},
		{name: "release replaced", sql: releaseReplaced, args: `20, 100, 3, 1`, want: []string{byID, `_tenant_id_batch_id_idx1`, `workers_pkey`}, pkeyOnly: true},
		{name: "took over", sql: tookOver, want: []string{`workers_pkey`}},
		{name: "acquit", sql: acquit, args: `3`, want: []string{byID, `blames_pkey`, `workers_pkey`}, pkeyOnly: true},
		{name: "condemn", sql: condemn, args: `3, 1`, want: []string{byID, `blames_pkey`, `workers_pkey`}, pkeyOnly: true},
		{name: "expire", sql: expire, args: ``, want: []string{byID, `_expires_at_idx`}, pkeyOnly: true},
		{name: "cancel queued", sql: cancelQueued, args: low + `, '{}'`, want: []string{byID, queue}, pkeyOnly: true},
		{name: "labeled", sql: labeled, args: `1, '{}', '{}'`, want: []string{queue, `_tenant_id_batch_id_idx`, `batch_counts_live|batch_counts_batch_id_idx`}},
		{name: "cancel many", sql: cancelMany, args: `'{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "repeats", sql: repeats, args: low + `, '{}', '{}'`, want: []string{byID, `tenant_id_cache_key_id_idx`}},
		{name: "results", sql: results(nilID), args: low + `, 0, 0, 10, 1000`, want: []string{`Limit.*\n *->  WindowAgg`, `_batch_id_seq_idx`}},
		{name: "answer", sql: answer, args: low + `, '{}', '{}', '{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "orphans", sql: orphans, args: low + `, '{}', '{}'`, want: []string{byID}, pkeyOnly: true},
		{name: "inputs", sql: inputs, args: low, want: []string{byID, `_tenant_id_batch_id_idx`, `_tenant_id_batch_id_idx1`}},
		{name: "submit job", sql: submitCounted, args: `1, '', '', ` + low + `, 1, 'p', 0, 1, '', 0, '', '', '{}', 0, NULL, NULL, '', 0, NULL, '{p,q}'`, want: []string{queue + `.*\n *Index Cond: .*pool = c.pool`}},
		{name: "submit job, uncounted", sql: submitUncounted, args: `1, '', '', ` + low + `, 1, 'p', 0, 1, '', 0, '', '', '{}', 0, NULL, NULL, '', 0, NULL, '{p,q}'`, want: []string{queue + `.*\n *Index Cond: .*pool = c.pool`}},
		{name: "overtake", sql: overtake, args: low + `, 1, '', 0, NULL, '{p,q}', 2`, want: []string{byID, queue + `.*\n *Index Cond: .*pool = c.pool.* AND .*tenant_id > .* AND .*tenant_id < `, queue + `.*\n *Index Cond: .*pool = c.*pool.* AND .*tenant_id = `, `_tenant_id_batch_id_idx1.*\n *Index Cond: .*tenant_id = `}, pkeyOnly: true},
		{name: "waiting of a tenant", sql: waiting, args: `1`, want: []string{queue + `.*\n *Index Cond: .*pool = p.*\.pool.* AND .*tenant_id = `, `batch_counts_live|batch_counts_batch_id_idx`, `batches_pkey`, `batches_open`}},
		{name: "progress", sql: progress, args: `'{}'`, want: []string{`batch_counts_pkey`, `batches_pkey`, `tenants_pkey`}},
		{name: "batches by id", sql: `SELECT ` + batchColumns + batchTables + `WHERE coalesce(b.sealed_at, 'infinity') < 'infinity' AND b.id = ANY($1::uuid[])`, args: `'{}'`, want: []string{`batch_counts_pkey`, `batches_pkey`}},
		{name: "where a look for jobs ends", sql: jobsTo("jobs"), args: low + `, ` + low + `, 10`, want: []string{`Index Only Scan Backward using .*_pkey`}},
		{name: "list of jobs", sql: listJobs("jobs"), args: low + `, ` + low + `, 1, '', NULL, NULL, 10`, want: []string{`Index Scan Backward using .*_pkey`, `batches_pkey`}},
		{name: "list of live jobs", sql: listJobs("live_jobs"), args: low + `, ` + low + `, 1, 'queued', NULL, '{}', 10`, want: []string{`Index Scan Backward using .*_pkey`, `batches_pkey`}},
		{name: "list of batches", sql: `SELECT ` + batchColumns + batchTables + `WHERE b.sealed_at IS NOT NULL AND b.tenant_id = $1 AND ` + listBatches, args: `1, 'infinity', ` + low + `, 10`,
			want: []string{`Index Scan Backward using batches_by_seal .*\n *Index Cond: .*ROW\(`, `batch_counts_pkey`}},
		{name: "batch", sql: `SELECT ` + batchColumns + batchTables + `WHERE b.id = $1`, args: low, want: []string{`batch_counts_pkey`, `batches_pkey`}},
	}
}

// TestPlans plans the statements of the hot paths on empty partitions, where
// every index looks equally good, and checks that each is used as it was meant.
func TestPlans(t *testing.T) {
	s := openTest(t, Config{})
	for _, c := range planned() {
		t.Run(c.name, func(t *testing.T) {
			plan := explain(t, s, c.sql, c.args)
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(plan) {
					t.Errorf("no %q in the plan", want)
				}
			}
			for _, not := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join"} {
				if strings.Contains(plan, not) {
					t.Errorf("a %s", not)
				}
			}
			lines := strings.Split(plan, "\n")
			for i, line := range lines {
				if c.pkeyOnly && regexp.MustCompile(lookupByID).MatchString(line) && strings.Contains(lines[i-1], " on jobs") && !strings.Contains(lines[i-1], "_pkey") {
					t.Errorf("looked up by id in another index: %s", lines[i-1])
				}
			}
			if t.Failed() {
				t.Log(plan)
			}
		})
	}
}

func explain(t *testing.T, s *Store, sql, args string) string {
	t.Helper()
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `PREPARE planned AS `+sql); err != nil {
		t.Fatal(err)
	}
	defer conn.Exec(t.Context(), `DEALLOCATE planned`)
	execute := `EXPLAIN EXECUTE planned`
	if args != "" {
		execute += fmt.Sprintf(`(%s)`, args)
	}
	rows, err := conn.Query(t.Context(), execute, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

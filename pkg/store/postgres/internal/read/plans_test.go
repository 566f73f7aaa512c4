package read

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// planned are the statements of the hot paths.
func planned() []pgtest.Planned {
	today := pg.DayOf(job.NewID())
	return []pgtest.Planned{
		{Name: "queue, waiting", SQL: queued, Args: ``, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = heads.pool`, `tenants_pkey`}},
		{Name: "queue, under way", SQL: underway, Args: ``, Want: []string{`_tenant_id_batch_id_idx`, `_tenant_id_batch_id_idx1`}},
		{Name: "queue, outstanding", SQL: outstanding, Args: ``, Want: []string{`batch_counts_live|batch_counts_batch_id_idx`, `batches_pkey`}},
		{Name: "pools of a tenant", SQL: poolsOf, Args: `1`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = p.pool.* AND .*tenant_id = 1|` + pgtest.Queue + `.*\n *Index Cond: .*pool = p.pool.* AND .*tenant_id = \$1`}},
		{Name: "results", SQL: results(today), Args: pgtest.Low + `, 0, 0, 10, 1000`, Want: []string{`Limit.*\n *->  WindowAgg`, `_batch_id_seq_idx`}},
		{Name: "where a look for results ends", SQL: lookedAt(today), Args: pgtest.Low + `, 0, 0, 10`, Want: []string{`_batch_id_seq_idx`}},
		{Name: "results of an outcome", SQL: resultsOf(today), Args: pgtest.Low + `, 0, 0, 10, 1000, 10, 'failed'`, Want: []string{`Limit.*\n *->  WindowAgg`, `_batch_id_seq_idx`}},
		{Name: "waiting of a tenant", SQL: waiting, Args: `1`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = p.*\.pool.* AND .*tenant_id = `, `batch_counts_live|batch_counts_batch_id_idx`, `batches_pkey`, `batches_open`}},
		{Name: "waiting of all tenants", SQL: waitingOfAll, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = h.*\.pool.* AND .*tenant_id = `, `batch_counts_live|batch_counts_batch_id_idx`, `batches_open`}},
		{Name: "progress", SQL: progress, Args: `'{}'`, Want: []string{`batch_counts_pkey`, `batches_pkey`, `tenants_pkey`}},
		{Name: "batches by id", SQL: `SELECT ` + batchColumns + batchTables + `WHERE coalesce(b.sealed_at, 'infinity') < 'infinity' AND b.id = ANY($1::uuid[])`, Args: `'{}'`, Want: []string{`batch_counts_pkey`, `batches_pkey`}},
		{Name: "where a look for jobs ends", SQL: jobsTo(recordedJobs(today)), Args: pgtest.Low + `, ` + pgtest.Low + `, 10`, Want: []string{`Index Only Scan Backward using .*_pkey`}},
		{Name: "list of jobs", SQL: listJobs(recordedJobs(today)), Args: pgtest.Low + `, ` + pgtest.Low + `, 1, '', NULL, NULL, 10, '', false, '', 0, 0, '', '', '', '{}', ''`, Want: []string{`Index Scan Backward using .*_pkey`, `batches_pkey`}},
		{Name: "list of live jobs", SQL: listJobs(unfinishedJobs(today)), Args: pgtest.Low + `, ` + pgtest.Low + `, 1, 'queued', NULL, '{}', 10, '', false, '', 0, 0, '', '', '', '{}', ''`, Want: []string{`Index Scan Backward using .*_pkey`, `batches_pkey`}},
		{Name: "list of jobs by outcome", SQL: listJobs(recordedJobs(today)), Args: pgtest.Low + `, ` + pgtest.Low + `, 1, '', NULL, NULL, 10, 'failed', false, '', 0, 0, '', '', '', '{}', ''`, Want: []string{`Index Scan Backward using .*_pkey`, `batches_pkey`}},
		{Name: "list of jobs by failure", SQL: listJobs(recordedJobs(today)), Args: pgtest.Low + `, ` + pgtest.Low + `, 1, '', NULL, NULL, 10, '', false, '', 0, 0, '', '', '', '{}', 'timed_out'`, Want: []string{`Index Scan Backward using .*_pkey`, `batches_pkey`}},
		{Name: "list of running jobs", SQL: listJobs(underwayJobs(job.Running)), Args: pgtest.Low + `, ` + pgtest.Low + `, 1, 'running', NULL, NULL, 10, '', false, '', 0, 0, '', '', '', '{}', ''`, Want: []string{`_tenant_id_batch_id_idx1`}},
		{Name: "list of batches", SQL: browseBatches(false), Args: `1, 'infinity', ` + pgtest.Low + `, '-infinity', 10, 10, '', NULL, NULL`,
			Want: []string{`Index Scan Backward using batches_by_seal .*\n *Index Cond: .*ROW\(`, `batch_counts_pkey`}},
		{Name: "list of all batches", SQL: browseBatches(true), Args: `0, 'infinity', ` + pgtest.Low + `, '-infinity', 10, 10, '', NULL, NULL`,
			Want: []string{`Index Scan Backward using batches_sealed .*\n *Index Cond: .*ROW\(`, `batch_counts_pkey`}},
		{Name: "where a look for a map ends", SQL: cellsTo(today), Args: pgtest.Low + `, ` + pgtest.Low + `, 10`, Want: []string{`Index Only Scan using .*_pkey`}},
		{Name: "map of a batch", SQL: cells(today), Args: pgtest.Low + `, ` + pgtest.Low + `, ` + pgtest.Low + `, 10`, Want: []string{`Index Scan using .*_pkey`}},
		{Name: "jobs to compare", SQL: named(today), Args: pgtest.Low + `, ` + pgtest.Low + `, ` + pgtest.Low + `, 10`, Want: []string{`Index Scan using .*_pkey`}},
		{Name: "sample of a batch", SQL: sample(today), Args: pgtest.Low + `, 10, 10`, Want: []string{`_batch_id_seq_idx.*\n *Index Cond: .*seq = `, `jobs_.*_pkey`}},
		{Name: "rate of a batch", SQL: lately(today), Args: pgtest.Low + `, 10`, Want: []string{`_batch_id_seq_idx`}},
		{Name: "states of batches", SQL: batchStates, Args: `1, '{}'`, Want: []string{`batch_counts_pkey`, `batches_pkey`}},
		{Name: "batch", SQL: `SELECT ` + batchColumns + batchTables + `WHERE b.id = $1`, Args: pgtest.Low, Want: []string{`batch_counts_pkey`, `batches_pkey`}},
	}
}

func TestPlans(t *testing.T) { pgtest.Plans(t, pgtest.Open(t, testenv.Postgres(t)), planned()) }

// TestHistoryIsNotPlanned checks that no plan of a statement scans an unrelated day.
func TestHistoryIsNotPlanned(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, testenv.Postgres(t))
	old := pgtest.OldDays(t, db)
	pgtest.NoHistory(t, db, old, planned())
	day := old.AddDate(0, 0, 3)
	for name, sql := range map[string]string{
		"result": `SELECT id FROM results r WHERE r.id = $1 AND ` + pg.OnDay("r.id", job.FirstIDAt(day)),
		"page":   results(pg.DayOf(job.NewID())),
	} {
		args := pgtest.Low
		if name == "page" {
			args += `, 0, 0, 10, 1000`
		}
		plan := pgtest.Explain(t, db, sql, args)
		for n := range 15 {
			d := old.AddDate(0, 0, n)
			if (name == "page" || !d.Equal(day)) && strings.Contains(plan, "results_"+d.Format("20060102")) {
				t.Errorf("%s: a plan with the day %s", name, d.Format(time.DateOnly))
			}
		}
	}
}

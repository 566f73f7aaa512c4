package lifecycle

import (
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// planned are the statements of the hot paths.
func planned() []pgtest.Planned {
	const tier = `_pool_tenant_id_expr_batch_id_lane_id_idx`
	return []pgtest.Planned{
		{Name: "claim", SQL: claim, Args: `1, ` + pgtest.Low + `, '{}', '{}', '{}', '{}', 2`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "claim one", SQL: claimOne, Args: `1, ` + pgtest.Low + `, 1, '', now(), 2`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "claim suspect", SQL: claimSuspect, Args: `1, ` + pgtest.Low + `, 1, '', now(), 2`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "suspects", SQL: suspects, Args: pgtest.Low + `, '{}', '{}', 2`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "reclaim", SQL: reclaim, Args: `1, ` + pgtest.Low + `, '{}', '{}', '{}', '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "heartbeat", SQL: heartbeat, Args: `1, ` + pgtest.Low + `, '{}', '{}', '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "finish", SQL: finish, Args: pgtest.Low + `, '{}', '{}', '{}', '{}', '{}'`, Want: []string{pgtest.ByID, `batch_counts_pkey`}, KeysOnly: true},
		{Name: "finish one", SQL: finishOne, Args: pgtest.Low + `, 1, '', '', ''`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "finished", SQL: finished(pg.DayOf(job.NewID())), Args: `'{}', '{}', '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "release", SQL: release, Args: `1, 100, 3, 1, '{}', '{}', '{}', '{}', '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "held", SQL: heldSQL, Args: `'{p,q}', 10, '-infinity'`, Want: []string{`_dispatched_at_idx `, `_dispatched_at_idx1 `}},
		{Name: "settings", SQL: settingsSQL, Args: `'{1}'`, Want: []string{`tenants_pkey`}},
		{Name: "walk", SQL: walkSQL, Args: `'{p,q}', '{0,0}', 10`, Want: []string{`Index Cond: .*pool = .*tenant_id > s.tenant_id`}},
		{Name: "heads", SQL: headsSQL, Args: `'{p,q}', '{1,1}', '{1,1}', '{0,0}', '{8,8}', 10, '{}', '{}', 1, '{1,1}'`, Want: []string{tier + `.*\n *Index Cond: .*pool = .*tenant_id = .*ROW\(.*from_batch`, pgtest.Queue + `.*\n *Index Cond: .*priority = `, `batches_pkey`}},
		{Name: "jobs", SQL: jobsSQL, Args: `'{p}', '{1}', '{` + pgtest.LowID + `}', '{0}', '{0}', '{` + pgtest.LowID + `}', '{10}'`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*priority = g.priority.*id > g.after`}},
		{Name: "lanes", SQL: lanesSQL, Args: `'{p}', '{1}', '{` + pgtest.LowID + `}', '{0}', '{0}', '{10}'`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*lane > l.lane`}},
		{Name: "capped", SQL: cappedSQL, Args: `'{1}'`, Want: []string{`_tenant_id_idx`}},
		{Name: "dispatch", SQL: dispatchSQL, Args: `'{}', ` + pgtest.Low + `, '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "unclaimed", SQL: unclaimed, Args: `1, 10`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "take back", SQL: releaseExpired, Args: `20, 100, 3, 1, 500, 0`, Want: []string{pgtest.ByID, `_tenant_id_batch_id_idx1`}, KeysOnly: true},
		{Name: "release replaced", SQL: releaseReplaced, Args: `20, 100, 3, 1, 500, 0`, Want: []string{pgtest.ByID, `_tenant_id_batch_id_idx1`, `workers_pkey`}, KeysOnly: true},
		{Name: "took over", SQL: tookOver, Want: []string{`workers_pkey`}},
		{Name: "acquit", SQL: acquit, Args: `3, 500, 0`, Want: []string{pgtest.ByID, `blames_pkey`, `workers_pkey`}, KeysOnly: true},
		{Name: "condemn", SQL: condemn, Args: `3, 1, 500, 0`, Want: []string{pgtest.ByID, `blames_pkey`, `workers_pkey`}, KeysOnly: true},
		{Name: "expire", SQL: expire, Args: `500, 0`, Want: []string{pgtest.ByID, `_expires_at_idx`}, KeysOnly: true},
		{Name: "end one", SQL: endings[0].sql, Args: pgtest.Low + `, 0, '', 'lost', NULL, '', ''`, Want: []string{pgtest.ByID, `batch_counts_pkey`}, KeysOnly: true},
		{Name: "tenants to tell", SQL: tenantsToTell, Args: `0`, Want: []string{`callbacks_due on callbacks k `, `callbacks_due on callbacks`}},
		{Name: "take callbacks", SQL: takeCallbacks, Args: `16, 1, '{1}', 8, 0`, Want: []string{`callbacks_due.*\n *Index Cond: .*tenant_id = .* AND .*next_at <= `, `callbacks_pkey`}},
		{Name: "cancel queued", SQL: cancelQueued, Args: pgtest.Low + `, '{}', 2000, 0`, Want: []string{pgtest.ByID, pgtest.Queue}, KeysOnly: true},
		{Name: "outlived", SQL: outlived[0], Args: pgtest.Low + `, 1, '', 500, 0`, Want: []string{pgtest.ByID, pgtest.Queue}},
		{Name: "outlived, dispatched", SQL: outlived[1], Args: pgtest.Low + `, 1, '', 500, 0`, Want: []string{pgtest.ByID, `_tenant_id_batch_id_idx`}},
		{Name: "queued, by label", SQL: queuedLabeled, Args: `1, '{}', 'p', ` + pgtest.Low + `, ` + pgtest.Low + `, 0, 0, ` + pgtest.Low + `, 10`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = .*tenant_id = .*ROW\(`, `batches_pkey`}},
		{Name: "running, by label", SQL: underwayLabeled(job.Running), Args: `1, '{}', NULL`, Want: []string{`_tenant_id_batch_id_idx1`, `batches_pkey`}},
		{Name: "jobs to erase", SQL: endedJobs(pg.DayOf(job.NewID())), Args: pgtest.Low + `, 10`, Want: []string{`_batch_id_seq_idx`}},
		{Name: "erase", SQL: erase(pg.DayOf(job.NewID())), Args: `'{}', ` + pgtest.Low, Want: []string{pgtest.ByID, `batch_counts_pkey`}, KeysOnly: true},
		{Name: "cancel many", SQL: cancelMany, Args: `'{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "repeats", SQL: repeats(pg.DayOf(job.NewID())), Args: pgtest.Low + `, '{}', '{}'`, Want: []string{pgtest.ByID, `tenant_id_cache_key_id_idx`}},
		{Name: "answer", SQL: answer(pg.DayOf(job.NewID())), Args: pgtest.Low + `, '{}', '{}', '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "orphans", SQL: orphans(pg.DayOf(job.NewID())), Args: `'{}', '{}'`, Want: []string{pgtest.ByID}, KeysOnly: true},
		{Name: "inputs of queued jobs", SQL: queuedInputs, Args: `10, '', 0, ` + pgtest.Low + `, 0, 0, ` + pgtest.Low + `, ` + pgtest.Low, Want: []string{pgtest.ByID, pgtest.Queue + `.*\n *Index Cond: .*ROW\(`}},
		{Name: "inputs of jobs under way", SQL: underwayInputs, Args: pgtest.Low, Want: []string{pgtest.ByID, `_tenant_id_batch_id_idx`, `_tenant_id_batch_id_idx1`}},
	}
}

func TestPlans(t *testing.T) { pgtest.Plans(t, pgtest.Open(t, testenv.Postgres(t)), planned()) }

// TestHistoryIsNotPlanned checks that no plan of a statement scans an unrelated day.
func TestHistoryIsNotPlanned(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, testenv.Postgres(t))
	pgtest.NoHistory(t, db, pgtest.OldDays(t, db), planned())
}

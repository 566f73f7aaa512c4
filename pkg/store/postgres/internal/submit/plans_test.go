package submit

import (
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// planned are the statements of the hot paths.
func planned() []pgtest.Planned {
	return []pgtest.Planned{
		{Name: "submit job", SQL: submitCounted, Args: `1, '', '', ` + pgtest.Low + `, 1, 'p', 0, 1, '', 0, '', '', '{}', 0, NULL, NULL, '', 0, NULL, '{p,q}'`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = c.pool`}},
		{Name: "submit job, uncounted", SQL: submitUncounted, Args: `1, '', '', ` + pgtest.Low + `, 1, 'p', 0, 1, '', 0, '', '', '{}', 0, NULL, NULL, '', 0, NULL, '{p,q}'`, Want: []string{pgtest.Queue + `.*\n *Index Cond: .*pool = c.pool`}},
		{Name: "redate", SQL: redateJobs, Args: pgtest.Low + `, 10, 0`, Want: []string{pgtest.ByID, `_expires_at_idx.*\n *Index Cond: .*expires_at > `}, KeysOnly: true},
		{Name: "overtake", SQL: overtake, Args: pgtest.Low + `, 1, '', 0, NULL, '{p,q}', 2`, Want: []string{pgtest.ByID, pgtest.Queue + `.*\n *Index Cond: .*pool = c.pool.* AND .*tenant_id > .* AND .*tenant_id < `, pgtest.Queue + `.*\n *Index Cond: .*pool = c.*pool.* AND .*tenant_id = `, `_tenant_id_batch_id_idx1.*\n *Index Cond: .*tenant_id = `}, KeysOnly: true},
	}
}

func TestPlans(t *testing.T) { pgtest.Plans(t, pgtest.Open(t, testenv.Postgres(t)), planned()) }

// TestHistoryIsNotPlanned checks that no plan of a queue statement scans a past day.
func TestHistoryIsNotPlanned(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, testenv.Postgres(t))
	pgtest.NoHistory(t, db, pgtest.OldDays(t, db), planned())
}

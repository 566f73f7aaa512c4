package transfer

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

// TestPlans: a page reads index entries of the tenant, or of the given jobs, and no others.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, testenv.Postgres(t))
	today := pg.DayOf(job.FirstIDAt(time.Now()))
	cases := []pgtest.Planned{{Name: "scan", SQL: scan(today), Args: "1, " + pgtest.Low, Want: []string{`Index Scan using jobs_\d+_pkey`, `Index Cond: \(\(id > \$2\)`}}}
	add := func(tb table, days *pg.Days, scope, cond string) {
		sql, first := tb.page("*", days)
		cases = append(cases, pgtest.Planned{Name: tb.name, SQL: sql, Args: scope + ", '" + first + "'", Want: []string{`Index Cond: .*` + cond}})
	}
	for _, tb := range append(tenantTables, keyTable) {
		add(tb, nil, "1", `id = \$1`)
		for _, child := range tb.of {
			add(child, nil, "'{}'", `ANY \(\$1\)`)
		}
	}
	for _, tb := range jobTables {
		add(tb, &today, "'{}'", `ANY \(\$1\)`)
	}
	pgtest.Plans(t, db, cases)
	for _, c := range cases {
		if plan := pgtest.Explain(t, db, c.SQL, c.Args); strings.Contains(plan, "Sort") {
			t.Errorf("%s sorts all rows for one page:\n%s", c.Name, plan)
		}
	}
}

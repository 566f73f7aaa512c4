// Package pgtest has helpers for tests of statements: a database connection, and checks of query plans.
package pgtest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// Open migrates the schema of a database and connects to it.
func Open(t testing.TB, dsn string) *pg.DB {
	t.Helper()
	if err := schema.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	db, err := pg.Open(t.Context(), Config(dsn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// Config returns a store's defaults.
func Config(dsn string) pg.Config {
	return pg.Config{DSN: dsn, MaxConns: 16, MinConns: 2, Timeout: 15 * time.Second, ApplicationTag: "assay"}
}

// Planned is a statement and the requirements on its plan.
type Planned struct {
	Name, SQL string
	Args      string
	Want      []string // all of these
	KeysOnly  bool     // whether every lookup by id must use a primary key
}

const (
	// Low is an id before all others.
	Low = `'` + LowID + `'`
	// LowID is Low without quotes.
	LowID = `00000000-0000-0000-0000-000000000000`
	// ByID matches a lookup by id in a plan.
	ByID = `Index Cond: \(.*\bid = `
	// Queue matches the index of waiting jobs.
	Queue = `_pool_tenant_id_batch_id_priority_lane_id_idx`
)

// Plans plans statements on empty partitions, where every index looks equally good. It checks that each
// statement uses its intended indexes.
func Plans(t *testing.T, db *pg.DB, cases []Planned) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			plan := Explain(t, db, c.SQL, c.Args)
			for _, want := range c.Want {
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
				if c.KeysOnly && strings.Contains(line, "Index Cond") && strings.Contains(line, "id < '") && !regexp.MustCompile(`id = `).MatchString(line) {
					t.Errorf("a scan of a whole day: %s", line)
				}
				if c.KeysOnly && regexp.MustCompile(ByID).MatchString(line) && strings.Contains(lines[i-1], " on jobs") && !strings.Contains(lines[i-1], "_pkey") {
					t.Errorf("looked up by id in another index: %s", lines[i-1])
				}
			}
			if t.Failed() {
				t.Log(plan)
			}
		})
	}
}

// Explain returns the plan of a prepared statement.
func Explain(t *testing.T, db *pg.DB, sql, args string) string {
	t.Helper()
	conn, err := db.Pool.Acquire(t.Context())
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

// oldDays is the number of days that OldDays makes.
const oldDays = 15

// OldDays makes partitions of past days, starting with old, and limits the queue to later days.
func OldDays(t *testing.T, db *pg.DB) (old time.Time) {
	t.Helper()
	old = time.Now().UTC().AddDate(0, 0, -20).Truncate(24 * time.Hour)
	if _, err := db.Pool.Exec(t.Context(), `SELECT assay_partitions($1::date, $2)`, old, oldDays); err != nil {
		t.Fatal(err)
	}
	if err := schema.New(db).Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return old
}

// NoHistory checks that no plan of the statements scans one of the OldDays.
func NoHistory(t *testing.T, db *pg.DB, old time.Time, cases []Planned) {
	t.Helper()
	kept := regexp.MustCompile(`(jobs|specs|attempts|results)_` + old.Format("20060102")[:6])
	for _, c := range cases {
		plan := Explain(t, db, c.SQL, c.Args)
		for line := range strings.Lines(plan) {
			if m := kept.FindString(line); m != "" && strings.Contains(line, oldPart(line, old)) {
				t.Errorf("%s: %s", c.Name, strings.TrimSpace(line))
				break
			}
		}
	}
}

// oldPart returns the day in a line of a plan if OldDays made it. Otherwise it returns a text that no line
// contains.
func oldPart(line string, old time.Time) string {
	for n := range oldDays {
		if d := old.AddDate(0, 0, n).Format("_20060102"); strings.Contains(line, d) {
			return d
		}
	}
	return "\x00"
}

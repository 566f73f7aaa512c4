package postgres

import (
	"cmp"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func openTest(t testing.TB, cfg Config) *Store {
	t.Helper()
	cfg.DSN = testenv.Postgres(t)
	if err := Migrate(t.Context(), cfg.DSN); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func dsnOf(s *Store) string { return s.db.Pool.Config().ConnString() }

func TestStore(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "Postgres")
	m := &moves{seen: map[[2]job.State]bool{}}
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB, o storetest.Options) store.Store {
			o.RetryDelay = cmp.Or(o.RetryDelay, -1) // none: the tests want their jobs back at once
			o.PoisonAfter = cmp.Or(o.PoisonAfter, 1000)
			o.PoisonWait = cmp.Or(o.PoisonWait, time.Millisecond)
			s := openTest(t, Config{InfraBudget: o.InfraBudget, PoisonAfter: o.PoisonAfter, PoisonWait: o.PoisonWait, OpenBatchTTL: o.OpenBatchTTL, TakeBackAfter: o.TakeBackAfter, AgeEvery: o.AgeEvery, RetryDelay: o.RetryDelay})
			m.watch(t, s)
			return s
		})
	})
	// A failed or partial run has not seen them all.
	if !t.Failed() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		m.check(t)
	}
}

func queryStrings(t *testing.T, s *Store, sql string) []string {
	t.Helper()
	rows, err := s.db.Pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

package pg_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pgtest"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// TestLeasesAfterAnotherHistory checks that a promoted or restored database, which may lack the last leases,
// issues none of them again.
func TestLeasesAfterAnotherHistory(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	migrate(t, dsn)
	open := func() *pg.DB {
		s, err := pg.Open(t.Context(), pgtest.Config(dsn))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	defer s.Close()
	next := func() (lease int64) {
		t.Helper()
		if err := s.Pool.QueryRow(t.Context(), "SELECT nextval('leases')").Scan(&lease); err != nil {
			t.Fatal(err)
		}
		return lease
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := s.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got := next(); got != 1 {
		t.Errorf("the first lease is %d", got)
	}
	open().Close()
	if got := next(); got != 2 {
		t.Errorf("after a restart of a dispatcher the second lease is %d", got)
	}

	// After a promotion, many connections are made at once, and one of them leaves the gap.
	exec("UPDATE lineage SET name = regexp_replace(name, '/[0-9A-F]{8}/', '/00000000/')")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if other, err := pg.Open(t.Context(), pgtest.Config(dsn)); err != nil {
				t.Error(err)
			} else {
				other.Close()
			}
		})
	}
	wg.Wait()
	if got := next(); got != 2+pg.LeaseGap+1 {
		t.Errorf("after a promotion the next lease is %d", got)
	}

	// A dump was restored beside the row that it had.
	exec("DROP SEQUENCE leases; CREATE SEQUENCE leases AS bigint START 500")
	open().Close()
	if got := next(); got <= pg.LeaseGap {
		t.Errorf("after a restore the next lease is %d", got)
	}
}

// TestNoStandby checks that a read-only connection is closed, not kept until its server is promoted.
func TestNoStandby(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	migrate(t, dsn)
	s, err := pg.Open(t.Context(), pgtest.Config(dsn+"&default_transaction_read_only=on"))
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("a server that only reads: %v, want %v", err, job.ErrUnavailable)
	}
}

func migrate(t *testing.T, dsn string) {
	t.Helper()
	if err := schema.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
}

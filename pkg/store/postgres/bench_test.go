package postgres

import (
	"context"
	"os"
	"testing"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/storetest"
)

// BenchmarkStore measures the caller's server with its own settings if ASSAY_DATABASE_URL is set. That
// database must be empty; the benchmark fills it. Otherwise it measures the tests' server, which does not
// wait for the disk.
func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b testing.TB) store.Store {
		dsn := os.Getenv("ASSAY_DATABASE_URL")
		if dsn == "" {
			return openTest(b, Config{})
		}
		if err := Migrate(context.Background(), dsn); err != nil {
			b.Fatal(err)
		}
		s, err := Open(context.Background(), Config{DSN: dsn})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		return s
	})
}

package testenv

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
)

// databasePrefix marks the databases of tests.
const databasePrefix = "test_"

// Postgres returns the connection string of a new, empty database that is dropped when the test
// ends. The caller runs migrations. The tests of a binary share the cluster.
//
// Only here fsync is off: the data of a test need not survive a power cut, and a killed server
// loses nothing by it.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	Needs(t, "Postgres")
	pg, name := database(t)
	ctx, cancel := startContext()
	defer cancel()
	dsn, err := pg.CreateDatabase(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := pg.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

// database makes sure that the server runs and picks a name.
func database(t testing.TB) (*dev.Postgres, string) {
	t.Helper()
	defer env.use(t)()
	if env.postgres == nil {
		if err := env.startPostgres(); err != nil {
			t.Fatal(err)
		}
	}
	env.databases++
	return env.postgres, fmt.Sprintf("%s%d", databasePrefix, env.databases)
}

func (e *environment) startPostgres() error {
	ctx, cancel := startContext()
	defer cancel()
	dir, err := e.slot("postgres")
	if err != nil {
		return err
	}
	pg, err := dev.StartPostgres(ctx, dev.PostgresConfig{Dir: dir, Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		return err
	}
	e.stops = append(e.stops, pg.Stop)
	// A killed run leaves its databases.
	names, err := pg.Databases(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, databasePrefix) {
			if err := pg.DropDatabase(ctx, name); err != nil {
				return err
			}
		}
	}
	e.postgres = pg
	return nil
}

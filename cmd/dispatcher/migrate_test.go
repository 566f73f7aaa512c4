package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/store/postgres"
)

// TestMigrate goes the way of an installation: nothing there, migrated, migrated again,
// and by then newer than the program.
func TestMigrate(t *testing.T) {
	dsn := testenv.Postgres(t)
	call := func(args ...string) (string, error) {
		t.Helper()
		var out bytes.Buffer
		asked, err := migrate(t.Context(), append([]string{"migrate", "--database-url=" + dsn}, args...), &out)
		if !asked {
			t.Fatal("not understood")
		}
		return out.String(), err
	}
	if out, err := call("--status"); err == nil || !strings.Contains(out, "has version 0") {
		t.Errorf("before: %q, %v", out, err)
	}
	// A dispatcher that may not migrate says what to do.
	limited := rowsOnly(t, dsn)
	_, err := openStore(t.Context(), config{DatabaseURL: httpapi.Secret(limited)}, time.Second)
	if err == nil || !strings.Contains(err.Error(), "dispatcher migrate") {
		t.Errorf("a dispatcher with an empty database: %v", err)
	}
	if _, err := migrate(t.Context(), []string{"migrate", "--database-url=" + limited}, io.Discard); !errors.Is(err, postgres.ErrRole) {
		t.Errorf("a role that may not: %v", err)
	}
	first, err := call()
	if err != nil || !strings.Contains(first, "had version 0") {
		t.Errorf("migrate: %q, %v", first, err)
	}
	again, err := call()
	if err != nil || strings.Contains(again, "had") {
		t.Errorf("migrate again: %q, %v", again, err)
	}
	if out, err := call("--status"); err != nil || out != again {
		t.Errorf("after: %q, %v", out, err)
	}
	// With what is up to date, it needs no right to change it, and does not.
	s, err := openStore(t.Context(), config{DatabaseURL: httpapi.Secret(limited)}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// rowsOnly makes a role that may read and write all rows that there are and will be, and change no schema, and returns a URL of it.
func rowsOnly(t *testing.T, dsn string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	role := "rows_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD '"+role+"' IN ROLE pg_read_all_data, pg_write_all_data"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, role)
	return u.String()
}

// TestStartWaitsForMigration: a migration that takes longer than a server has to answer is
// waited for, by those who would make it themselves and by those who may not.
func TestStartWaitsForMigration(t *testing.T) {
	t.Parallel()
	const patience = 5 * time.Second
	dsn := testenv.Postgres(t)
	if _, err := migrate(t.Context(), []string{"migrate", "--database-url=" + dsn}, io.Discard); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// As far as anybody can see, this connection is migrating.
	exec(fmt.Sprintf("SELECT pg_advisory_lock(%d)", lock.DefaultLockID))
	exec("CREATE TEMP TABLE last AS SELECT version_id, is_applied, tstamp FROM schema_versions ORDER BY version_id DESC LIMIT 1")
	exec("DELETE FROM schema_versions WHERE version_id IN (SELECT version_id FROM last)")
	started := make(chan error, 2)
	for _, who := range []string{dsn, rowsOnly(t, dsn)} {
		go func() {
			s, err := openStore(t.Context(), config{DatabaseURL: httpapi.Secret(who)}, patience)
			if err == nil {
				s.Close()
			}
			started <- err
		}()
	}
	select {
	case err := <-started:
		t.Fatalf("somebody did not wait: %v", err)
	case <-time.After(patience + time.Second):
	}
	exec("INSERT INTO schema_versions (version_id, is_applied, tstamp) SELECT version_id, is_applied, tstamp FROM last")
	exec(fmt.Sprintf("SELECT pg_advisory_unlock(%d)", lock.DefaultLockID))
	for range cap(started) {
		if err := <-started; err != nil {
			t.Error(err)
		}
	}
}

func TestMigrateNamesWhatIsWrong(t *testing.T) {
	for says, args := range map[string][]string{
		"--database-url": {"migrate"},
		"no-such-flag":   {"migrate", "--database-url=x", "--no-such-flag"},
		"unavailable":    {"migrate", "--database-url=postgres://127.0.0.1:1/none", "--patience=300ms"},
	} {
		if asked, err := migrate(t.Context(), args, io.Discard); !asked || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want an error that says %s", args, err, says)
		}
	}
	if asked, _ := migrate(t.Context(), []string{"--migrate"}, io.Discard); asked {
		t.Error("a flag was taken for the command")
	}
}

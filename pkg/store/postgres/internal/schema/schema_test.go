package schema

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/migrations"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "rewrite migrations/schema.sql")

const schemaFile = "../../../../../migrations/schema.sql"

// TestSchemaFile checks that the schema file equals the result of the migrations. Run with -update after a
// new migration.
func TestSchemaFile(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	migrateUp(t, dsn)
	got := dumpSchema(t, dsn)
	if *update {
		if err := os.WriteFile(schemaFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("migrations/schema.sql is not current; run go test ./pkg/store/postgres/internal/schema -run SchemaFile -update\n(-file +migrations):\n%s", diff)
	}
}

// TestMigrations migrates up, all the way down, and up again.
func TestMigrations(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	migrateUp(t, dsn)
	first := dumpSchema(t, dsn)
	if err := Migrate(t.Context(), dsn); err != nil { // partitions must not be in the way
		t.Fatal(err)
	}
	if err := DownTo(t.Context(), dsn, 0); err != nil {
		t.Fatal(err)
	}
	if left := dumpSchema(t, dsn); strings.Contains(left, "CREATE") {
		t.Errorf("left after the way down:\n%s", left)
	}
	migrateUp(t, dsn)
	if diff := cmp.Diff(first, dumpSchema(t, dsn)); diff != "" {
		t.Errorf("up after down (-first +second):\n%s", diff)
	}
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- Migrate(t.Context(), dsn) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestMigrationsComeInPairs(t *testing.T) {
	t.Parallel()
	onDisk, err := filepath.Glob("../../../../../migrations/[0-9]*.sql")
	if err != nil {
		t.Fatal(err)
	}
	ms, err := readMigrations(migrations.Files)
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) == 0 || len(onDisk) != 2*len(ms) {
		t.Errorf("%d files make %d migrations", len(onDisk), len(ms))
	}
	for i, m := range ms {
		if m.Version != int64(i+1) {
			t.Errorf("migration %d is number %d", i+1, m.Version)
		}
	}
	if _, err := readMigrations(onlyUp{migrations.Files}); err == nil {
		t.Error("half a pair was accepted")
	}
}

// onlyUp hides the down migrations.
type onlyUp struct{ fs.FS }

func (f onlyUp) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".down.sql") {
		return nil, fs.ErrNotExist
	}
	return f.FS.Open(name)
}

// TestChecks compares the states that the schema allows with package job.
func TestChecks(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	db := open(t, dsn)
	var outcomes []string
	for _, o := range job.Outcomes {
		outcomes = append(outcomes, string(o))
	}
	var states []string
	for _, st := range job.States {
		states = append(states, string(st))
	}
	reasons := []string{string(job.ReasonNone), string(job.ReasonLost), string(job.ReasonDrained), string(job.ReasonPreempted), string(job.ReasonInfra)}
	for _, c := range []struct {
		table, constraint string
		want              []string
	}{
		{"jobs", "jobs_state", states},
		{"jobs", "jobs_outcome", outcomes},
		{"attempts", "attempts_outcome", outcomes},
		{"attempts", "attempts_reason", reasons},
		{"results", "results_outcome", outcomes},
		{"results", "results_reason", reasons},
	} {
		var def string
		err := db.Pool.QueryRow(t.Context(), `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::text::regclass AND conname = $2`,
			c.table, c.constraint).Scan(&def)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range regexp.MustCompile(`'([a-z_]*)'::text`).FindAllStringSubmatch(def, -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-job +schema):\n%s", c.constraint, diff)
		}
	}
	for _, st := range job.States {
		var allowed []string
		terminal := queryStrings(t, db, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'jobs'::regclass AND conname = 'jobs_ended'`)[0]
		terminal, _, _ = strings.Cut(terminal, "IS NOT NULL")
		for _, m := range regexp.MustCompile(`'([a-z_]*)'::text`).FindAllStringSubmatch(terminal, -1) {
			allowed = append(allowed, m[1])
		}
		if slices.Contains(allowed, string(st)) != st.Terminal() {
			t.Errorf("jobs_ended and job disagree on whether %s is terminal: %s", st, terminal)
		}
	}
	counters := queryStrings(t, db, `SELECT column_name::text FROM information_schema.columns WHERE table_name = 'batch_counts'
		AND column_name NOT IN ('batch_id', 'total', 'recorded', 'ended_at', 'erased', 'erased_numbers') ORDER BY ordinal_position`)
	if diff := cmp.Diff(outcomes, counters); diff != "" {
		t.Errorf("counters (-job +schema):\n%s", diff)
	}
}

func open(t *testing.T, dsn string) *pg.DB {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{DSN: dsn, MaxConns: 4, Timeout: 15 * time.Second, ApplicationTag: "assay"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func queryStrings(t *testing.T, db *pg.DB, sql string) []string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// migrateUp is Migrate without the partitions of today.
func migrateUp(t *testing.T, dsn string) {
	t.Helper()
	err := withProvider(t.Context(), dsn, func(p *goose.Provider, _ *sql.DB) error {
		_, err := p.Up(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dumpSchema returns pg_dump's output without lines that differ between servers or runs.
func dumpSchema(t *testing.T, dsn string) string {
	t.Helper()
	path, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Fatalf("%v; install the package postgresql-client", err)
	}
	cmd := exec.CommandContext(context.Background(), path, "--schema-only", "--no-owner", "--no-privileges",
		"--exclude-table=schema_versions*", dsn)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	var kept bytes.Buffer
	blank := true
	for line := range strings.Lines(string(out)) {
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "--"), strings.HasPrefix(line, "SET "), strings.HasPrefix(line, `\`),
			strings.HasPrefix(line, "SELECT pg_catalog.set_config"):
		case text == "":
			if !blank {
				kept.WriteString("\n")
			}
			blank = true
		default:
			kept.WriteString(line)
			blank = false
		}
	}
	return strings.TrimSpace(kept.String()) + "\n"
}

// TestNewerSchema checks that programs of two versions run side by side. The older one accepts a newer
// schema, leaves it unchanged, and works.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	if s, err := ReadSchema(t.Context(), dsn); err != nil || s.Has != 0 || s.Current() {
		t.Errorf("an empty database: %+v, %v", s, err)
	}
	migrateUp(t, dsn)
	s, err := ReadSchema(t.Context(), dsn)
	if err != nil || s.Has != s.Wants || !s.Current() {
		t.Errorf("migrated: %+v, %v", s, err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	newer := s.Wants + 1
	if _, err := conn.Exec(t.Context(), "ALTER TABLE jobs ADD COLUMN later text; INSERT INTO schema_versions (version_id, is_applied) VALUES ("+strconv.FormatInt(newer, 10)+", true)"); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Errorf("an older program's migration: %v", err)
	}
	if err := AwaitSchema(t.Context(), dsn, time.Minute); err != nil {
		t.Error(err)
	}
	if s, err := ReadSchema(t.Context(), dsn); err != nil || s.Has != newer || !s.Current() {
		t.Errorf("newer: %+v, %v", s, err)
	}
	open(t, dsn)
}

// TestWaitForMigrationIsSaid checks that a program that waits for another to migrate logs that, and gives up
// without progress.
func TestWaitForMigrationIsSaid(t *testing.T) { // not parallel: the test replaces the process's log
	var log testenv.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	dsn := testenv.Postgres(t)
	if err := AwaitSchema(t.Context(), dsn, time.Nanosecond); !errors.Is(err, job.ErrUnavailable) || !strings.Contains(err.Error(), "dispatcher migrate") {
		t.Errorf("nobody migrates: %v", err)
	}
	if !strings.Contains(log.String(), "waiting for another process") || !strings.Contains(log.String(), "migrating=false") {
		t.Errorf("logged %q", log.String())
	}
	holder, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock($1)", lock.DefaultLockID); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Migrate(t.Context(), dsn) }()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "another process migrates the schema"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("logged %q", log.String())
		}
	}
	if s, err := ReadSchema(t.Context(), dsn); err != nil || !s.Migrating || s.Has != 0 {
		t.Errorf("meanwhile: %+v, %v", s, err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", lock.DefaultLockID); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s, err := ReadSchema(t.Context(), dsn); err != nil || s.Migrating || !s.Current() {
		t.Errorf("in the end: %+v, %v", s, err)
	}
}

// TestMigrationsThatGiveWayAreTriedAgain checks that only migrations that gave way to a working fleet are
// tried again.
func TestMigrationsThatGiveWayAreTriedAgain(t *testing.T) {
	t.Parallel()
	for code, again := range map[string]bool{pg.DeadlockDetected: true, pg.LockNotAvailable: true, pg.InsufficientPrivilege: false, pg.UndefinedTable: false} {
		err := permanentUnlessLocked(fmt.Errorf("migrate: %w", &pgconn.PgError{Code: code}))
		var permanent *backoff.PermanentError
		if errors.As(err, &permanent) == again {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestMigrationsExpand checks that a migration that removes something names the version since which it is
// unused.
func TestMigrationsExpand(t *testing.T) {
	t.Parallel()
	taking := regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|COLUMN|FUNCTION|VIEW)|RENAME|SET\s+NOT\s+NULL|ALTER\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE)\b`)
	said := regexp.MustCompile(`(?m)^-- contract: unused since \d{4}`)
	ups, err := fs.Glob(migrations.Files, "*.up.sql")
	if err != nil || len(ups) == 0 {
		t.Fatal(ups, err)
	}
	for _, name := range ups {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		if taken := taking.Find(text); taken != nil && !said.Match(text) {
			t.Errorf("%s: %s breaks programs of the version before; see package migrations", name, taken)
		}
	}
}

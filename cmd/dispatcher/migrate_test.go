package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/httpapi"
	"github.com/assay-run/assay/internal/testenv"
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
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := openStore(short, config{DatabaseURL: httpapi.Secret(dsn), DatabaseMax: 4})
	if err == nil || !strings.Contains(err.Error(), "dispatcher migrate") {
		t.Errorf("a dispatcher with an empty database: %v", err)
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
	s, err := openStore(t.Context(), config{DatabaseURL: httpapi.Secret(dsn), DatabaseMax: 4})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
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

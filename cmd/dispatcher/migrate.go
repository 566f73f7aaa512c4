package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/store/postgres"
)

// migration has the flags of `dispatcher migrate`.
type migration struct {
	DatabaseURL httpapi.Secret `name:"database-url" env:"ASSAY_DATABASE_URL" required:"" help:"PostgreSQL, as postgres://… or key=value pairs; not through a pooler that shares sessions."`
	Status      bool           `name:"status" help:"Print the schema version and the required one, and change nothing; exit with status 1 if the schema is too old."`
	Patience    time.Duration  `name:"patience" default:"1m" help:"Time to wait for the server."`
}

// migrate runs `dispatcher migrate`, and reports whether the arguments request it.
//
// Old dispatchers may run during and after it. A migration adds the requirements of the next
// version. A migration that deletes something comes at least one version after its last use (see
// package migrations).
func migrate(ctx context.Context, args []string, out io.Writer) (asked bool, err error) {
	var m migration
	asked, ready, err := command("migrate", aboutMigrate, args, &m, out)
	if !ready {
		return asked, err
	}
	dsn := string(m.DatabaseURL)
	reach, cancel := context.WithTimeout(ctx, m.Patience)
	defer cancel()
	if err := postgres.Reach(reach, dsn); err != nil {
		return true, err
	}
	s, err := postgres.ReadSchema(ctx, dsn)
	if err != nil {
		return true, err
	}
	if !m.Status {
		was := s.Has
		if err := postgres.Migrate(ctx, dsn); err != nil {
			return true, fmt.Errorf("bring the schema up to date: %w", err)
		}
		if s, err = postgres.ReadSchema(ctx, dsn); err != nil {
			return true, err
		}
		if s.Has != was {
			_, err = fmt.Fprintf(out, "the schema had version %d\n", was)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "the schema has version %d, this program needs %d\n", s.Has, s.Wants)
	}
	if err == nil && !s.Current() {
		err = fmt.Errorf("the schema is too old")
	}
	return true, err
}

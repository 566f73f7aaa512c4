package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// database is the address of the fleet's.
type database string

func (t *target) database() (database, error) {
	dispatcher, err := t.child("dispatcher")
	if err != nil {
		return "", err
	}
	url, err := dispatcher.env("ASSAY_DATABASE_URL")
	return database(url), err
}

// run runs statements, each a transaction of its own.
func (d database) run(ctx context.Context, statements []string) error {
	_, err := d.ask(ctx, strings.Join(statements, ";\n"))
	return err
}

// ask returns what statements answer, a line for each row.
func (d database) ask(ctx context.Context, script string) (string, error) {
	psql := d.psql(ctx)
	psql.Stdin = strings.NewReader(script + ";\n")
	var out, said bytes.Buffer
	psql.Stdout, psql.Stderr = &out, &said
	if err := psql.Run(); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func (d database) psql(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1", "--dbname="+string(d))
}

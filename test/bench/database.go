package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// databaseURL is the address of a database.
type databaseURL string

// Run runs statements, each in a transaction of its own.
func (d databaseURL) Run(ctx context.Context, statements []string) error {
	_, err := d.Ask(ctx, strings.Join(statements, ";\n"))
	return err
}

// Ask returns the output of statements, a line for each row.
func (d databaseURL) Ask(ctx context.Context, script string) (string, error) {
	psql := d.psql(ctx)
	psql.Stdin = strings.NewReader(script + ";\n")
	var out, said bytes.Buffer
	psql.Stdout, psql.Stderr = &out, &said
	if err := psql.Run(); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func (d databaseURL) psql(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1", "--dbname="+string(d))
}

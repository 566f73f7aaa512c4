package main

import (
	"io"

	"github.com/assay-run/assay/internal/cli/program"
	"github.com/assay-run/assay/internal/mcp"
)

type mcpCmd struct {
	Policy string `placeholder:"FILE" help:"Default policy of programs: a JSON file, or the name of a stored policy."`
}

// Run serves one agent until it closes standard input.
func (c *mcpCmd) Run(a *app) error {
	policy, err := program.ReadPolicy(c.Policy)
	if err != nil {
		return err
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	return mcp.Serve(a.ctx, mcp.Config{Fleet: fleet, Policy: policy}, io.NopCloser(a.stdin), nopCloser{a.stdout})
}

// nopCloser ignores Close, because the writer belongs to the process.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

// What the chart and the compose file set is what this program reads: a variable
// of another name would be ignored in silence.
func TestDeploymentsSetKnownVariables(t *testing.T) {
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, &help); err != errHelp {
		t.Fatal(err)
	}
	for _, command := range []func(context.Context, []string, io.Writer) (bool, error){migrate, issue, check} {
		for _, name := range []string{"migrate", "issue", "check"} {
			if _, err := command(t.Context(), []string{name, "--help"}, &help); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := testenv.Variables(help.String())
	if len(known) < 5 {
		t.Fatalf("help names only %v", known)
	}
	for _, name := range testenv.Deployed(t, "dispatcher", "_names.tpl", "_dispatcher.tpl", "dispatcher.yaml", "migrations.yaml", "identities.yaml", "tests/run.yaml") {
		if !slices.Contains(known, name) && name != "ASSAY_OPERATOR_TOKENS" { // which is passed on to be refused
			t.Errorf("a deployment sets %s, which is not a variable of this program", name)
		}
	}
}

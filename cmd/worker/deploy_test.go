package main

import (
	"bytes"
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
	known := testenv.Variables(help.String())
	if len(known) < 5 {
		t.Fatalf("help names only %v", known)
	}
	for _, name := range testenv.Deployed(t, "worker", "_names.tpl", "workers.yaml") {
		if !slices.Contains(known, name) {
			t.Errorf("a deployment sets %s, which is not a variable of this program", name)
		}
	}
}

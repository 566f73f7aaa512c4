package main

import (
	"bytes"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

// TestHelpText compares the help with testdata/help.txt.
func TestHelpText(t *testing.T) {
	t.Setenv("COLUMNS", "1000") // one line for each flag
	var out bytes.Buffer
	if _, err := parse([]string{"--help"}, &out); err != errHelp {
		t.Fatal(err)
	}
	testenv.Golden(t, "testdata/help.txt", out.String(), *update)
}

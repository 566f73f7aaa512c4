package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

// TestHelpText compares the help of each command with testdata/help.txt.
func TestHelpText(t *testing.T) {
	t.Setenv("COLUMNS", "1000") // one line for each flag
	var out bytes.Buffer
	if _, err := parse([]string{"--help"}, &out); err != errHelp {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		run  func(context.Context, []string, io.Writer) (bool, error)
	}{{"migrate", migrate}, {"issue", issue}, {"check", check}} {
		out.WriteString("\n----\n")
		if _, err := c.run(t.Context(), []string{c.name, "--help"}, &out); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Golden(t, "testdata/help.txt", out.String()+"\n----\n"+keysUsage+"\n", *update)
}

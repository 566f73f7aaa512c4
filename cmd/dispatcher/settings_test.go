package main

import (
	"flag"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata/help.txt and the table of docs/operate/settings.md instead of comparing them")

// TestSettings compares the settings with their table in docs/operate/settings.md.
func TestSettings(t *testing.T) {
	p, err := kong.New(&config{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	var all []testenv.Setting
	for _, f := range p.Model.Flags {
		all = append(all, testenv.Setting{Flag: f.Name, Variables: f.Envs, Default: f.Default, Help: f.Help})
	}
	testenv.Settings(t, "dispatcher", all, 34, *update)
}

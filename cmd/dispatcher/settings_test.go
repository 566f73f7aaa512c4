package main

import (
	"flag"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/settings"
	"github.com/assay-run/assay/internal/testenv"
)

var update = flag.Bool("update", false, "write the table of docs/operations.md instead of comparing it")

// Whatever this program can be told is in docs/operations.md, by a flag and a variable of the same name, and what it could
// be told once is not.
func TestSettings(t *testing.T) {
	p, err := kong.New(&config{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	var all []testenv.Setting
	for _, f := range p.Model.Flags {
		switch {
		case f.Name == "help" || f.Name == "version":
			continue
		case len(f.Envs) != 1 || f.Envs[0] != settings.Variable(f.Name) || f.Help == "":
			t.Errorf("--%s: its variable is %v, its help %q", f.Name, f.Envs, f.Help)
		case gone[f.Name] != "":
			t.Errorf("--%s is gone, and there", f.Name)
		}
		all = append(all, testenv.Setting{Flag: f.Name, Variable: settings.Variable(f.Name), Default: f.Default, Help: f.Help})
	}
	// Each is one more thing to know for whoever runs a fleet: one that comes takes another's place, or has an argument.
	if most := 38; len(all) > most {
		t.Errorf("%d settings; %d at most", len(all), most)
	}
	testenv.Settings(t, "dispatcher", all, *update)
}

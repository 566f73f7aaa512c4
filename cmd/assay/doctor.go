package main

import (
	"path/filepath"

	"github.com/assay-run/assay/internal/cli/doctor"
	"github.com/assay-run/assay/internal/cli/show"
)

type doctorCmd struct {
	Data  string `env:"ASSAY_DATA" placeholder:"DIR" help:"Data directory to check."`
	Fleet bool   `name:"fleet" help:"Check the Postgres settings of the fleet at --url instead; needs an operator's token."`
}

// Run examines this host. The exit code reports whether jobs can run here.
func (c *doctorCmd) Run(a *app) error {
	if c.Fleet {
		return c.fleet(a)
	}
	bin, err := binDir()
	if err != nil {
		return err
	}
	if c.Data == "" {
		if c.Data, err = dataDir(); err != nil {
			return err
		}
	}
	archives := defaultArchives(bin)
	if cache, err := imageCache(); err == nil && len(archives) == 0 {
		archives, _ = filepath.Glob(filepath.Join(cache, "*.tar")) // an error means a bad pattern
	}
	for i := range archives {
		archives[i] = filepath.Clean(archives[i])
	}
	return c.show(a, doctor.Host{Bin: bin, Data: c.Data, Images: archives}.Examine(a.ctx))
}

// fleet examines the database of a fleet.
func (c *doctorCmd) fleet(a *app) error {
	admin, err := a.operator()
	if err != nil {
		return err
	}
	w, err := admin.WhySlow(a.ctx)
	if err != nil {
		return err
	}
	return c.show(a, doctor.Database(w.Database, w.Dispatchers))
}

func (c *doctorCmd) show(a *app, found []doctor.Finding) error {
	if a.JSON {
		if err := a.printJSON(found); err != nil {
			return err
		}
	} else {
		t := show.NewTable(a.stdout)
		for _, f := range found {
			t.Row(f.Level, f.Check, f.Found)
			if f.Advice != "" {
				t.Row("", "", "→ "+f.Advice)
			}
		}
		if err := t.End(); err != nil {
			return err
		}
	}
	if !doctor.Healthy(found) {
		return exitCode(exitOurs)
	}
	return nil
}

package main

import "github.com/assay-run/assay/internal/dev"

type imageBuildCmd struct {
	Name string `arg:"" optional:"" default:"python" enum:"python,polyglot" help:"Which: python, the default, or polyglot, which has every language of the catalogue that the distribution has and takes some minutes and gigabytes."`
	Dir  string `name:"dir" placeholder:"DIR" help:"Where to keep it (default: where assay dev looks for it, assay in $$XDG_CACHE_HOME or ~/.cache)."`
}

// Run builds an image of jobs, unless it exists, and prints its path.
func (c *imageBuildCmd) Run(a *app) error {
	var err error
	if c.Dir == "" {
		if c.Dir, err = imageCache(); err != nil {
			return err
		}
	}
	archive, err := dev.BuildImage(a.ctx, c.Dir, c.Name, a.stderr)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(map[string]string{"archive": archive})
	}
	a.printf("%s\n", archive)
	return nil
}

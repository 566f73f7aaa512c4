package main

import "github.com/assay-run/assay/internal/dev"

type imageBuildCmd struct {
	Dir string `name:"dir" placeholder:"DIR" help:"Where to keep it (default: where assay dev looks for it, assay in $$XDG_CACHE_HOME or ~/.cache)."`
}

// Run builds the default image, if it is not there yet, and prints where it is.
func (c *imageBuildCmd) Run(a *app) error {
	var err error
	if c.Dir == "" {
		if c.Dir, err = imageCache(); err != nil {
			return err
		}
	}
	archive, err := dev.BuildImage(a.ctx, c.Dir, a.stderr)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(map[string]string{"archive": archive})
	}
	a.printf("%s\n", archive)
	return nil
}

package main

import "github.com/assay-run/assay/internal/cli/dev"

type imageBuildCmd struct {
	Name string `arg:"" optional:"" default:"python" enum:"python,tools,polyglot" help:"Image to build: python, tools (adds curl, jq, pytest and more), or polyglot (every language; minutes, gigabytes)."`
	Dir  string `name:"dir" placeholder:"DIR" help:"Directory for the archive (default: assay in $$XDG_CACHE_HOME or ~/.cache, where assay dev finds it)."`
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

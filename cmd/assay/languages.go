package main

import (
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
)

type languagesCmd struct {
	Image string `name:"image" placeholder:"IMAGE" help:"Image to list the languages of (default: the image of jobs that name none)."`
}

// Run lists the languages of an image.
func (c *languagesCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	found, err := fleet.Languages(a.ctx, c.Image)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(found)
	}
	return a.printLanguages(found)
}

// printLanguages prints the image's languages, or the whole catalogue if they are unknown.
func (a *app) printLanguages(found api.LanguageList) error {
	t := show.NewTable(a.stdout, "LANGUAGE", "ALIASES", "FILE", "COMPILED", "VERSION")
	var missing, unknown []string
	for _, l := range found.Languages {
		if l.Available != nil && !*l.Available {
			missing = append(missing, l.Name)
			continue
		}
		if l.Available == nil {
			unknown = append(unknown, l.Name)
		}
		t.Row(l.Name, dash(strings.Join(l.Aliases, " ")), l.File, map[bool]string{true: "yes", false: "no"}[l.Compile != nil], dash(l.Version))
	}
	if err := t.End(); err != nil {
		return err
	}
	if len(missing) > 0 {
		a.printf("not in image %s: %s\n", show.Plain(found.Image), show.Plain(strings.Join(missing, " ")))
	}
	if len(unknown) > 0 {
		a.printf("image %s does not list its languages, or no worker has it yet\n", show.Plain(found.Image))
	}
	return nil
}

// dash returns s, or a dash for an empty column.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

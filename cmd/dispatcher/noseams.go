//go:build !faults

package main

import "github.com/assay-run/assay/internal/settings"

// seams has no settings without the tag faults.
type seams struct{}

// goneSeams lists settings that only exist with the tag faults.
var goneSeams = settings.Removed{
	"infra-budget": "a job is given up after 20 failures of ours",
	"poison-after": "a job is given up whose start was the end of three workers",
}

func (seams) check() error { return nil }

// budgets returns the store's own defaults.
func (seams) budgets() (infra, poison int) { return 0, 0 }

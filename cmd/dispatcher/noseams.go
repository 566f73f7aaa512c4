//go:build !faults

package main

import "github.com/assay-run/assay/internal/settings"

// seams are settings of tests: see the programs that are built with the tag faults.
type seams struct{}

// goneSeams are for them alone.
var goneSeams = settings.Gone{
	"infra-budget": "a job is given up after 20 failures of ours",
	"poison-after": "a job is given up whose start was the end of three workers",
}

func (seams) check() error { return nil }

// budgets are those of the store: its own.
func (seams) budgets() (infra, poison int) { return 0, 0 }

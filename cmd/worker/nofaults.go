//go:build !faults

package main

import "github.com/assay-run/assay/internal/worker"

// unreliable does nothing without the tag faults: see package fault.
func unreliable(p worker.Parts) (worker.Parts, error) { return p, nil }

//go:build !faults

package main

// seams has no settings without the tag faults.
type seams struct{}

func (seams) check() error { return nil }

// budgets returns the store's own defaults.
func (seams) budgets() (infra, poison int) { return 0, 0 }

//go:build faults

package main

import "fmt"

// seams has settings for tests, which cause faults more often than a fleet does.
type seams struct {
	InfraBudget int `name:"infra-budget" env:"ASSAY_INFRA_BUDGET" default:"20" help:"Infrastructure failures, such as lost workers, after which a job fails."`
	PoisonAfter int `name:"poison-after" env:"ASSAY_POISON_AFTER" default:"3" help:"Workers that a job may crash before it fails."`
}

func (s seams) check() error {
	if s.InfraBudget < 1 || s.InfraBudget > 1000 {
		return fmt.Errorf("--infra-budget: %d is not from 1 to 1000", s.InfraBudget)
	}
	if s.PoisonAfter < 2 || s.PoisonAfter > 1000 {
		return fmt.Errorf("--poison-after: %d is not from 2 to 1000; once may be chance", s.PoisonAfter)
	}
	return nil
}

// budgets returns the store's budgets.
func (s seams) budgets() (infra, poison int) { return s.InfraBudget, s.PoisonAfter }

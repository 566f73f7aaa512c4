package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/program"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/job"
)

type policyCmd struct {
	Explain policyExplainCmd `cmd:"" help:"Print the mechanism that would enforce each capability of a policy."`
	Put     policyPutCmd     `cmd:"" help:"Store a policy under a name."`
	Get     policyGetCmd     `cmd:"" help:"Print a stored policy."`
	List    policyListCmd    `cmd:"" help:"List the stored policies."`
}

type policyExplainCmd struct {
	File    string `arg:"" help:"Policy: a JSON file, or the name of a stored policy."`
	Program string `help:"Kind of program: python, command, tests, session or shell (default: the kind with the most enforcement)."`
}

// Run explains a policy for a connected worker.
func (c *policyExplainCmd) Run(a *app) error {
	raw, err := program.ReadPolicy(c.File)
	if err != nil {
		return err
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	e, err := fleet.ExplainFor(a.ctx, c.Program, raw)
	if err != nil {
		return err
	}
	if a.JSON {
		if err := a.printJSON(e); err != nil {
			return err
		}
	} else {
		a.printExplanation(e)
	}
	if e.Refused != "" {
		return fmt.Errorf("a job with this policy would be refused: %s", e.Refused)
	}
	return nil
}

func (a *app) printExplanation(e *api.Explanation) {
	if e.Host == "" {
		a.printf("no worker is connected: this is the whole policy, but its enforcement is unknown\n%s\n", e.Policy)
		return
	}
	t := show.NewTable(a.stdout, "CAPABILITY", "REQUESTED", "APPLIED", "LEVEL", "MECHANISM")
	for _, r := range e.Enforcement {
		t.Row(r.Capability, r.Requested, r.Applied, r.Level, r.Mechanism)
	}
	_ = t.End()
	a.printf("(as worker %s would enforce it)\n", e.Host)
}

type policyPutCmd struct {
	Name string `arg:"" help:"Name of the policy."`
	File string `arg:"" help:"JSON file with the policy." type:"existingfile"`
}

// Run stores a policy.
func (c *policyPutCmd) Run(a *app) error {
	raw, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	if !json.Valid(raw) {
		return job.Invalid(c.File, "is not JSON")
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	if err := fleet.PutPolicy(a.ctx, c.Name, raw); err != nil {
		return err
	}
	if !a.JSON {
		a.printf("stored; jobs use it with \"policy\": %q\n", c.Name)
	}
	return nil
}

type policyGetCmd struct {
	Name string `arg:"" help:"Name of the policy."`
}

// Run prints a stored policy.
func (c *policyGetCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	raw, err := fleet.Policy(a.ctx, c.Name)
	if err != nil {
		return err
	}
	a.printf("%s\n", raw)
	return nil
}

type policyListCmd struct{}

// Run lists stored policies.
func (c *policyListCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	found, err := fleet.Policies(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(found)
	}
	for _, p := range found {
		a.printf("%s  version %d  %s\n", p.Name, p.Version, p.CreatedAt.Format(time.DateTime))
	}
	return nil
}

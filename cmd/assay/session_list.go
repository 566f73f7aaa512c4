package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/job"
)

type sessionListCmd struct {
	All    bool   `help:"Include sessions that have ended."`
	Limit  int    `default:"20" help:"Most sessions to list, up to 1000."`
	Tenant string `placeholder:"NAME" help:"Only sessions of this tenant (default: all tenants for operators, else your own)."`
}

// Run lists sessions; with --json one per line.
func (c *sessionListCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	list := func(tenant string) iter.Seq2[job.Session, error] {
		return func(yield func(job.Session, error) bool) {
			found, err := fleet.TenantSessions(a.ctx, tenant, !c.All)
			if err != nil {
				yield(job.Session{}, err)
				return
			}
			for _, s := range found[:min(len(found), max(c.Limit, 0))] {
				if !yield(s, nil) {
					return
				}
			}
		}
	}
	var found []job.Session
	for s, err := range visible(c.Tenant, list) {
		if err != nil {
			return err
		}
		found = append(found, s)
	}
	if a.JSON {
		for _, s := range found {
			if err := a.printJSON(s); err != nil {
				return err
			}
		}
		return nil
	}
	t := show.NewTable(a.stdout, "SESSION", "TENANT", "NAME", "KIND", "STATE", "IMAGE", "WORKER", "EXECUTIONS", "MEMORY", "AGE")
	for _, s := range found {
		t.Row(s.ID, cmp.Or(s.Tenant, "-"), cmp.Or(s.Spec.Name, "-"), kind(s), state(s), imageOf(s), s.Worker, s.Executions, memory(s), time.Since(s.CreatedAt).Round(time.Second))
	}
	return t.End()
}

type sessionShowCmd struct {
	ID string `arg:"" help:"Id of the session."`
}

// Run shows a session.
func (c *sessionShowCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	s, err := fleet.Session(a.ctx, job.ID(c.ID))
	if err != nil {
		return err
	}
	return a.showSession(s)
}

type sessionCloseCmd struct {
	IDs []string `arg:"" name:"id" help:"Ids of the sessions."`
}

// Run closes all of the sessions, and returns every error.
func (c *sessionCloseCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range c.IDs {
		s, err := fleet.CloseSession(a.ctx, job.ID(id))
		if err == nil {
			err = a.showSession(s)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (a *app) showSession(s *job.Session) error {
	if a.JSON {
		return a.printJSON(s)
	}
	a.printf("session %s (%s): %s on %s, started %s\n", s.ID, kind(*s), state(*s), show.Plain(s.Worker), s.CreatedAt.Local().Format(time.DateTime))
	a.printf("  image %s, memory %s, %d executions\n", show.Plain(imageOf(*s)), memory(*s), s.Executions)
	if s.Spec.Name != "" {
		a.printf("  name %s\n", show.Plain(s.Spec.Name))
	}
	if s.Parent != "" {
		a.printf("  forked from %s\n", s.Parent)
	}
	if s.EndedAt != nil {
		a.printf("  ended %s\n", s.EndedAt.Local().Format(time.DateTime))
	}
	if s.Message != "" {
		a.printf("  %s\n", show.Plain(s.Message))
	}
	return nil
}

// kind returns the kind of a session, python by default.
func kind(s job.Session) job.SessionKind { return cmp.Or(s.Spec.Kind, job.SessionPython) }

// state returns the state of a session, and the outcome after its end.
func state(s job.Session) string {
	if s.Outcome != "" {
		return string(s.State) + ", " + string(s.Outcome)
	}
	return string(s.State)
}

func imageOf(s job.Session) string { return cmp.Or(s.Spec.Image, dev.DefaultImage) }

// memory returns the memory limit of a session, or "?" for a policy of another version.
func memory(s job.Session) string {
	var p struct{ Memory job.Size }
	if err := json.Unmarshal(s.Spec.Policy, &p); err != nil || p.Memory == 0 {
		return "?"
	}
	return p.Memory.String()
}

package main

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/job"
)

type sessionCmd struct {
	Open  sessionOpenCmd  `cmd:"" default:"withargs" help:"Open a live interpreter or shell (the default)."`
	List  sessionListCmd  `cmd:"" help:"List sessions, newest first."`
	Show  sessionShowCmd  `cmd:"" help:"Show a session."`
	Close sessionCloseCmd `cmd:"" help:"Close sessions."`
}

type sessionOpenCmd struct {
	Kind  job.SessionKind `default:"python" enum:"python,shell" help:"Kind of session: python or shell."`
	Image string          `default:"python" help:"Image to run in."`
}

// Run keeps a session open for interactive input. Piped input is one execution.
func (c *sessionOpenCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	s, err := fleet.CreateSession(a.ctx, job.SessionSpec{Kind: c.Kind, Image: c.Image})
	if err != nil {
		return err
	}
	// Control-C interrupts the execution only, and the session is closed in any case.
	ctx := context.WithoutCancel(a.ctx)
	p := &prompt{Fleet: fleet, ID: s.ID, Kind: c.Kind, Stdout: a.stdout, Stderr: a.stderr, Show: a.showExecution}
	defer func() { _, _ = fleet.CloseSession(ctx, s.ID) }() // otherwise its idle timeout closes it
	if in, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return p.Interact(ctx, in)
	}
	text, err := io.ReadAll(a.stdin)
	if err != nil {
		return err
	}
	_, err = p.Execute(ctx, string(text))
	return err
}

func (a *app) showExecution(e *job.Execute) error {
	if a.JSON {
		return a.printJSON(e)
	}
	show.Execution(e, a.stdout, a.stderr)
	return nil
}

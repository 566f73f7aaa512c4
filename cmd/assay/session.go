package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type sessionCmd struct {
	Kind  job.SessionKind `default:"python" enum:"python,shell" help:"python or shell."`
	Image string          `default:"python" help:"Image to run in."`
}

// Run keeps a session open for what is typed, one line an execute, with history
// on a terminal; what is piped in is one execute.
func (c *sessionCmd) Run(a *app) (err error) {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	s, err := fleet.CreateSession(a.ctx, job.SessionSpec{Kind: c.Kind, Image: c.Image})
	if err != nil {
		return err
	}
	defer func() { _, _ = fleet.CloseSession(a.ctx, s.ID) }() // else its idle timeout does
	in, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		text, err := io.ReadAll(a.stdin)
		if err != nil {
			return err
		}
		_, err = c.execute(a, fleet, s.ID, string(text), a.stdout, a.stderr)
		return err
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), old) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, a.stdout}, ">>> ")
	for {
		line, err := t.ReadLine()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if line == "" {
			continue
		}
		if alive, err := c.execute(a, fleet, s.ID, line, t, t); err != nil || !alive {
			return err
		}
	}
}

func (c *sessionCmd) execute(a *app, fleet *client.Client, id job.ID, code string, stdout, stderr io.Writer) (alive bool, err error) {
	e, err := fleet.Execute(a.ctx, id, api.ExecuteRequest{Code: code})
	if err != nil {
		return false, err
	}
	if a.JSON {
		return e.Alive, a.printJSON(e)
	}
	fmt.Fprint(stdout, e.Stdout.Text)
	fmt.Fprint(stderr, e.Stderr.Text)
	if e.Value != nil {
		fmt.Fprintln(stdout, e.Value.Repr)
	}
	if e.Outcome == job.TimedOut || !e.Alive {
		fmt.Fprintf(stderr, "assay: %s: %s\n", e.Outcome, e.Message)
	}
	return e.Alive, nil
}

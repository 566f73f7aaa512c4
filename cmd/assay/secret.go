package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

type secretCmd struct {
	Put    secretPutCmd    `cmd:"" help:"Store a secret, read from standard input."`
	List   secretListCmd   `cmd:"" help:"List the names of the stored secrets; values are never shown."`
	Delete secretDeleteCmd `cmd:"" help:"Delete a secret."`
}

type secretPutCmd struct {
	Name string `arg:"" help:"Name for policies, as in \"env\": {\"secrets\": {\"TOKEN\": NAME}}."`
}

// Run stores the content of standard input without a final line end. There is no flag for the
// value, because other processes could read it.
func (c *secretPutCmd) Run(a *app) error {
	value, err := a.readSecret()
	if err != nil {
		return err
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	return fleet.PutSecret(a.ctx, c.Name, value)
}

func (a *app) readSecret() (string, error) {
	if f, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(a.stderr, "value: ")
		defer fmt.Fprintln(a.stderr)
		raw, err := term.ReadPassword(int(f.Fd()))
		return string(raw), err
	}
	const most = 1 << 20
	raw, err := io.ReadAll(io.LimitReader(a.stdin, most+1))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	if len(raw) > most {
		return "", errors.New("the value is too large: at most 32Ki")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), nil
}

type secretListCmd struct{}

// Run lists names.
func (c *secretListCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	found, err := fleet.Secrets(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(found)
	}
	for _, s := range found {
		a.printf("%s  %s\n", s.Name, s.UpdatedAt.Format(time.DateTime))
	}
	return nil
}

type secretDeleteCmd struct {
	Name string `arg:"" help:"Name of the secret."`
}

// Run deletes a secret.
func (c *secretDeleteCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	return fleet.DeleteSecret(a.ctx, c.Name)
}

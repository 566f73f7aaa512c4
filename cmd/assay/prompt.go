package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// prompt is an interactive session. Every field is required.
type prompt struct {
	Fleet          *client.Client
	ID             job.ID
	Kind           job.SessionKind
	Stdout, Stderr io.Writer
	// Show prints the result of an execution.
	Show func(e *job.Execute) error
}

// Interact executes typed lines, with history, until control-D.
func (p *prompt) Interact(ctx context.Context, in *os.File) error {
	fd := int(in.Fd())
	cooked, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, cooked) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{promptKeys{in}, p.Stdout}, "")
	for {
		text, err := p.read(t)
		if err == io.EOF {
			fmt.Fprintln(t)
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		// Make control-C a signal again during the execution.
		if err := term.Restore(fd, cooked); err != nil {
			return err
		}
		alive, err := p.Execute(ctx, text)
		if err != nil || !alive {
			return err
		}
		if _, err := term.MakeRaw(fd); err != nil {
			return err
		}
	}
}

// promptKeys reads the typed keys. At the prompt control-C clears the line. It must not end the session
// when the interrupted execution has just finished.
type promptKeys struct{ io.Reader }

func (k promptKeys) Read(b []byte) (int, error) {
	const controlC, controlU = 0x03, 0x15
	n, err := k.Reader.Read(b)
	for i := range b[:n] {
		if b[i] == controlC {
			b[i] = controlU
		}
	}
	return n, err
}

// read reads a line and its continuation lines, up to an empty one.
func (p *prompt) read(t *term.Terminal) (string, error) {
	first, more := ">>> ", "... "
	if p.Kind == job.SessionShell {
		first, more = "$ ", "> "
	}
	t.SetPrompt(first)
	line, err := t.ReadLine()
	if err != nil || !p.opens(line) {
		return line, err
	}
	lines := []string{line}
	t.SetPrompt(more)
	for line != "" {
		if line, err = t.ReadLine(); err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}

// Suffixes of lines that start several lines.
var openers = map[job.SessionKind][]string{
	job.SessionPython: {":", "\\", "(", "[", "{", ",", `"""`, "'''"},
	job.SessionShell:  {"\\", "{", "(", "|", "&&", "||", " do", " then"},
}

// opens reports whether a line starts several lines.
func (p *prompt) opens(line string) bool {
	line = strings.TrimRight(line, " \t")
	if p.Kind == job.SessionPython && strings.HasPrefix(line, "@") {
		return true
	}
	return slices.ContainsFunc(openers[p.Kind], func(end string) bool { return strings.HasSuffix(line, end) })
}

// Execute runs code and shows the result. Control-C interrupts it.
func (p *prompt) Execute(ctx context.Context, code string) (alive bool, err error) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-interrupts:
				if err := p.Fleet.Interrupt(ctx, p.ID); err != nil {
					fmt.Fprintln(p.Stderr, "assay: not interrupted:", err)
				}
			case <-over:
				return
			}
		}
	}()
	e, err := p.Fleet.Execute(ctx, p.ID, api.ExecuteRequest{Code: code})
	if err != nil {
		return false, err
	}
	return e.Alive, p.Show(e)
}

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
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type sessionCmd struct {
	Kind  job.SessionKind `default:"python" enum:"python,shell" help:"python or shell."`
	Image string          `default:"python" help:"Image to run in."`
}

// Run keeps a session open for what is typed; what is piped in is one execute.
func (c *sessionCmd) Run(a *app) error {
	fleet, err := a.client()
	if err != nil {
		return err
	}
	s, err := fleet.CreateSession(a.ctx, job.SessionSpec{Kind: c.Kind, Image: c.Image})
	if err != nil {
		return err
	}
	// Control-C is for what is executed, and the session is closed after all.
	p := &prompt{app: a, fleet: fleet, id: s.ID, kind: c.Kind, ctx: context.WithoutCancel(a.ctx)}
	defer func() { _, _ = fleet.CloseSession(p.ctx, s.ID) }() // else its idle timeout does
	if in, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return p.interact(in)
	}
	text, err := io.ReadAll(a.stdin)
	if err != nil {
		return err
	}
	_, err = p.execute(string(text), a.stdout, a.stderr)
	return err
}

// prompt is a session that somebody types into.
type prompt struct {
	app   *app
	fleet *client.Client
	id    job.ID
	kind  job.SessionKind
	ctx   context.Context
}

// interact executes what is typed, with history, until control-D.
func (p *prompt) interact(in *os.File) error {
	fd := int(in.Fd())
	cooked, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, cooked) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys{in}, p.app.stdout}, "")
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
		// Control-C is a signal again while there is nothing to type.
		if err := term.Restore(fd, cooked); err != nil {
			return err
		}
		alive, err := p.execute(text, p.app.stdout, p.app.stderr)
		if err != nil || !alive {
			return err
		}
		if _, err := term.MakeRaw(fd); err != nil {
			return err
		}
	}
}

// keys are what is typed at the prompt. There control-C empties the line: it must
// not end the session just because what it was meant for has just ended.
type keys struct{ io.Reader }

func (k keys) Read(b []byte) (int, error) {
	const controlC, controlU = 0x03, 0x15
	n, err := k.Reader.Read(b)
	for i := range b[:n] {
		if b[i] == controlC {
			b[i] = controlU
		}
	}
	return n, err
}

// read reads a line, and those that go on with it: until an empty one.
func (p *prompt) read(t *term.Terminal) (string, error) {
	first, more := ">>> ", "... "
	if p.kind == job.SessionShell {
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

// What the first of several lines ends with.
var openers = map[job.SessionKind][]string{
	job.SessionPython: {":", "\\", "(", "[", "{", ",", `"""`, "'''"},
	job.SessionShell:  {"\\", "{", "(", "|", "&&", "||", " do", " then"},
}

// opens reports whether a line is the first of several.
func (p *prompt) opens(line string) bool {
	line = strings.TrimRight(line, " \t")
	if p.kind == job.SessionPython && strings.HasPrefix(line, "@") {
		return true
	}
	return slices.ContainsFunc(openers[p.kind], func(end string) bool { return strings.HasSuffix(line, end) })
}

// execute runs code and shows what came of it. Control-C interrupts it.
func (p *prompt) execute(code string, stdout, stderr io.Writer) (alive bool, err error) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-interrupts:
				if err := p.fleet.Interrupt(p.ctx, p.id); err != nil {
					fmt.Fprintln(stderr, "assay: not interrupted:", err)
				}
			case <-over:
				return
			}
		}
	}()
	e, err := p.fleet.Execute(p.ctx, p.id, api.ExecuteRequest{Code: code})
	if err != nil {
		return false, err
	}
	if p.app.JSON {
		return e.Alive, p.app.printJSON(e)
	}
	show.Execution(e, stdout, stderr)
	return e.Alive, nil
}

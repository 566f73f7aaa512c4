package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
)

// leastInterval is how often a dispatcher looks itself, at most.
const leastInterval = time.Second

type topCmd struct {
	Interval time.Duration `name:"interval" default:"2s" placeholder:"TIME" help:"Time between looks; at least 1s."`
	Once     bool          `name:"once" help:"Print how it stands and end; the same where the output is no terminal."`
}

// Run shows the fleet until somebody presses q.
func (c *topCmd) Run(a *app) error {
	if c.Interval < leastInterval {
		return fmt.Errorf("--interval: %s is less than %s", c.Interval, leastInterval)
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	if a.JSON || c.Once || !isTerminal(a.stdout) || !isTerminal(a.stdin) {
		return c.once(a, fleet)
	}
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	m := &topModel{ctx: ctx, look: fleet.Now, every: c.Interval, url: a.URL}
	_, err = tea.NewProgram(m, tea.WithContext(a.ctx), tea.WithInput(a.stdin), tea.WithOutput(a.stdout), tea.WithEnvironment(os.Environ())).Run()
	if a.ctx.Err() != nil { // interrupted: that is how one leaves
		return nil
	}
	return err
}

func (c *topCmd) once(a *app, fleet *client.Client) error {
	now, err := fleet.Now(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(now)
	}
	a.printf("%s\n", strings.Join(topLines(now, nil), "\n"))
	return nil
}

// topModel is the screen: what was seen last, and which part of it.
type topModel struct {
	ctx   context.Context
	look  func(context.Context) (api.Fleet, error)
	every time.Duration
	url   string

	first, now    *api.Fleet
	err           error
	width, height int
	offset        int
}

// seen is what a look brought.
type seen struct {
	fleet api.Fleet
	err   error
}

// due says that it is time for the next look.
type due struct{}

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd { return m.again() }

// again looks. A dispatcher that does not answer is no reason to stop.
func (m *topModel) again() tea.Cmd {
	return func() tea.Msg {
		f, err := m.look(m.ctx)
		return seen{f, err}
	}
}

// pause waits for the next look, and not after the end.
func (m *topModel) pause() tea.Msg {
	t := time.NewTimer(m.every)
	defer t.Stop()
	select {
	case <-t.C:
		return due{}
	case <-m.ctx.Done():
		return nil
	}
}

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case seen:
		if m.err = msg.err; msg.err == nil {
			if m.now = &msg.fleet; m.first == nil {
				m.first = m.now
			}
		}
		return m, m.pause
	case due:
		return m, m.again()
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	}
	return m, nil
}

func (m *topModel) press(key string) tea.Cmd {
	page := max(m.height-3, 1)
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.offset--
	case "down", "j":
		m.offset++
	case "pgup":
		m.offset -= page
	case "pgdown", "space":
		m.offset += page
	case "home":
		m.offset = 0
	}
	return nil
}

// View implements tea.Model.
func (m *topModel) View() tea.View {
	v := tea.NewView(m.content())
	v.AltScreen, v.WindowTitle = true, "assay top"
	return v
}

// content is what fits on the screen.
func (m *topModel) content() string {
	head := "assay top  " + plain(m.url)
	if m.now != nil {
		head += "  " + m.now.At.Local().Format(time.TimeOnly)
	}
	if m.err != nil {
		head += "  NOT ANSWERED: " + plain(m.err.Error())
	}
	var body []string
	if m.now != nil {
		body = topLines(*m.now, m.first)
	} else if m.err == nil {
		body = []string{"looking …"}
	}
	room := max(m.height-2, 1)
	m.offset = max(min(m.offset, len(body)-room), 0)
	body = body[m.offset:min(m.offset+room, len(body))]
	lines := append([]string{head}, body...)
	lines = append(lines, "q quits, arrows and pages scroll")
	for i, l := range lines {
		lines[i] = cut(l, m.width)
	}
	return strings.Join(lines, "\n")
}

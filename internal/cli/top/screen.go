// Package top shows a fleet on a terminal, again and again, until somebody has seen enough.
package top

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
)

// A Config says what is shown, and where.
type Config struct {
	Look  func(context.Context) (api.Fleet, error) // reads the fleet
	Every time.Duration                            // time between two looks
	URL   string                                   // whose fleet it is
	In    io.Reader                                // the terminal
	Out   io.Writer                                // the same
}

// Run shows the fleet until somebody presses q. The end of ctx is no error.
func Run(ctx context.Context, c Config) error {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	m := &screen{ctx: looking, look: c.Look, every: c.Every, url: c.URL}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithEnvironment(os.Environ())).Run()
	if ctx.Err() != nil { // interrupted: that is how one leaves
		return nil
	}
	return err
}

// screen is what is shown: what was seen last, and which part of it.
type screen struct {
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
func (m *screen) Init() tea.Cmd { return m.again() }

// again looks. A dispatcher that does not answer is no reason to stop.
func (m *screen) again() tea.Cmd {
	return func() tea.Msg {
		f, err := m.look(m.ctx)
		return seen{f, err}
	}
}

// pause waits for the next look, and not after the end.
func (m *screen) pause() tea.Msg {
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
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
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

func (m *screen) press(key string) tea.Cmd {
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
func (m *screen) View() tea.View {
	v := tea.NewView(m.content())
	v.AltScreen, v.WindowTitle = true, "assay top"
	return v
}

// content is what fits on the screen.
func (m *screen) content() string {
	head := "assay top  " + show.Plain(m.url)
	if m.now != nil {
		head += "  " + m.now.At.Local().Format(time.TimeOnly)
	}
	if m.err != nil {
		head += "  NOT ANSWERED: " + show.Plain(m.err.Error())
	}
	var body []string
	if m.now != nil {
		body = Lines(*m.now, m.first)
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

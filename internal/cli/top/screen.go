// Package top shows a fleet or a batch on a terminal and refreshes it until the user quits.
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

// A Config is the content and the terminal of a screen.
type Config struct {
	Title string                              // the command and its subject
	Look  func(context.Context) (View, error) // reads the content
	Every time.Duration                       // refresh interval
	In    io.Reader                           // the terminal
	Out   io.Writer                           // the terminal, too
}

// View is the result of one refresh.
type View struct {
	At    time.Time
	Lines []string
	Over  bool // final: no further refresh
}

// Fleet returns a view of a fleet that marks changes since the first refresh.
func Fleet(look func(context.Context) (api.Fleet, error)) func(context.Context) (View, error) {
	var first *api.Fleet
	return func(ctx context.Context) (View, error) {
		now, err := look(ctx)
		if err != nil {
			return View{}, err
		}
		if first == nil {
			first = &now
		}
		return View{At: now.At, Lines: Lines(now, first)}, nil
	}
}

// Run shows the screen until the user presses q. The end of ctx is not an error.
func Run(ctx context.Context, c Config) error {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	m := &screen{ctx: looking, look: c.Look, every: c.Every, title: c.Title}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithEnvironment(os.Environ())).Run()
	if ctx.Err() != nil { // an interrupt is a normal way to quit
		return nil
	}
	return err
}

// screen holds the latest view and the visible part of it.
type screen struct {
	ctx   context.Context
	look  func(context.Context) (View, error)
	every time.Duration
	title string

	now           *View
	err           error
	width, height int
	offset        int
}

// snapshot is the result of a refresh.
type snapshot struct {
	view View
	err  error
}

// due triggers the next refresh.
type due struct{}

// Init implements tea.Model.
func (m *screen) Init() tea.Cmd { return m.refresh() }

// refresh refreshes. An error from the dispatcher does not stop it.
func (m *screen) refresh() tea.Cmd {
	return func() tea.Msg {
		v, err := m.look(m.ctx)
		return snapshot{v, err}
	}
}

// pause waits until the next refresh or the end.
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
	case snapshot:
		if m.err = msg.err; msg.err == nil {
			m.now = &msg.view
		}
		if msg.view.Over {
			return m, nil
		}
		return m, m.pause
	case due:
		return m, m.refresh()
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
	v.AltScreen, v.WindowTitle = true, show.Plain(m.title)
	return v
}

// content returns the visible part.
func (m *screen) content() string {
	head := show.Plain(m.title)
	if m.now != nil {
		head += "  " + m.now.At.Local().Format(time.TimeOnly)
	}
	if m.err != nil {
		head += "  NOT ANSWERED: " + show.Plain(m.err.Error())
	}
	var body []string
	if m.now != nil {
		body = m.now.Lines
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

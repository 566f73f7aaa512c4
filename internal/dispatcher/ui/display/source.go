package display

import (
	"encoding/base64"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

const (
	sourceLines = 400     // most lines of a source on a page
	sourceLine  = 2 << 10 // most bytes of a line
	sourceFiles = 20
	maxName     = 160 // bytes of a name
)

// Source is a piece of code.
type Source struct {
	Name  string
	Lines []SourceLine
	More  int // lines that are not shown
}

// SourceLine is a line of a Source.
type SourceLine struct {
	N      int
	Text   string
	Failed bool
}

// SourcesOf lists the sources of a job and marks the line that failed.
func SourcesOf(j *job.Job) (out []Source) {
	failed := 0
	if j.Result != nil && j.Result.Exception != nil {
		failed = j.Result.Exception.Line
	}
	add := func(name, code string, line int) {
		if code != "" && len(out) < sourceFiles {
			out = append(out, sourceOf(name, code, line))
		}
	}
	p := j.Spec.Program
	switch {
	case p.Python != nil:
		add("program", p.Python.Code, failed)
	case p.Tests != nil:
		add("solution", p.Tests.Code, failed)
		for _, name := range slices.Sorted(maps.Keys(p.Tests.Files)) {
			add(name, p.Tests.Files[name], 0)
		}
		add("setup", p.Tests.Setup, 0)
		add("check", p.Tests.Check, 0)
	case p.Code != nil:
		add(p.Code.Language, p.Code.Source, failed)
		for _, name := range slices.Sorted(maps.Keys(p.Code.Files)) {
			add(name, p.Code.Files[name], 0)
		}
	case p.Command != nil:
		add("command", commandOf(p.Command), 0)
	}
	return out
}

func commandOf(c *job.Command) string {
	if len(c.Steps) == 0 {
		return Quoted(c.Argv)
	}
	var lines []string
	for _, s := range c.Steps {
		lines = append(lines, s.Name+": "+Quoted(s.Argv))
	}
	return strings.Join(lines, "\n")
}

// Quoted quotes a command for a shell.
func Quoted(argv []string) string {
	var words []string
	for _, a := range argv {
		if strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+") == "" && a != "" {
			words = append(words, a)
			continue
		}
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// sourceOf returns the lines around the failed one or, without one, the first lines.
func sourceOf(name, code string, failed int) Source {
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	first := 0
	if failed > sourceLines-20 && failed <= len(lines) {
		first = failed - sourceLines/2
	}
	last := min(first+sourceLines, len(lines))
	s := Source{Name: Line(name, maxName), More: len(lines) - (last - first)}
	for i := first; i < last; i++ {
		text, cut := Text(lines[i], sourceLine)
		if cut {
			text += "…"
		}
		s.Lines = append(s.Lines, SourceLine{N: i + 1, Text: text, Failed: i+1 == failed})
	}
	return s
}

// Display is a figure or a table that a program made.
type Display struct {
	Image template.URL // bitmap image; "" for none
	Table *job.Table
	Words string // description of other content
}

const (
	displaysShown = 12
	maxImage      = 2 << 20 // in base64
	tableRows     = 50
	tableColumns  = 30
)

// Displays returns the figures and tables for a page. It accepts an image only if it begins like a bitmap format: other
// formats may contain scripts.
func Displays(all []job.Display) (out []Display) {
	for _, d := range all[:min(len(all), displaysShown)] {
		out = append(out, displayOf(d))
	}
	return out
}

func displayOf(d job.Display) Display {
	if d.Table != nil {
		return Display{Table: cutTable(d.Table)}
	}
	media := Line(d.MediaType, 60)
	if d.Base64 == "" || len(d.Base64) > maxImage {
		return Display{Words: media + " " + Line(d.Path, maxName)}
	}
	raw, err := base64.StdEncoding.DecodeString(d.Base64)
	if err != nil {
		return Display{Words: media + ", unreadable"}
	}
	switch is := http.DetectContentType(raw); is {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return Display{Image: template.URL("data:" + is + ";base64," + base64.StdEncoding.EncodeToString(raw))}
	}
	return Display{Words: media + ", " + Bytes(int64(len(raw)))}
}

func cutTable(t *job.Table) *job.Table {
	cut := job.Table{Columns: t.Columns[:min(len(t.Columns), tableColumns)], Total: t.Total}
	for _, row := range t.Rows[:min(len(t.Rows), tableRows)] {
		cut.Rows = append(cut.Rows, row[:min(len(row), tableColumns)])
	}
	return &cut
}

package shown

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
	sourceLines = 400     // that a page shows of one source
	sourceLine  = 2 << 10 // bytes of one line
	sourceFiles = 20
	maxName     = 160 // bytes of a name
)

// Source is a piece of code.
type Source struct {
	Name  string
	Lines []SourceLine
	More  int // lines that are not shown
}

// SourceLine is a line of one.
type SourceLine struct {
	N      int
	Text   string
	Failed bool
}

// SourcesOf lists what a job runs, with the line marked at which it failed.
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

// Quoted is a command as a shell reads it.
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

// sourceOf shows the lines around the one that failed; without one, the first.
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

// Display is something to look at that a program made.
type Display struct {
	Image template.URL // of pixels; "": none
	Table *job.Table
	Words string // what else it is
}

const (
	displaysShown = 12
	maxImage      = 2 << 20 // in base64
	tableRows     = 50
	tableColumns  = 30
)

// Displays are what a page shows of figures and tables. An image is one of pixels, by its own first bytes: others could have
// scripts in them.
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
		return Display{Words: media + ", which cannot be read"}
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

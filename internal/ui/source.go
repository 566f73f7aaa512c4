package ui

import (
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/internal/ui/shown"
	"github.com/assay-run/assay/pkg/job"
)

const (
	sourceLines = 400     // that a page shows of one source
	sourceLine  = 2 << 10 // bytes of one line
	sourceFiles = 20
)

// source is a piece of code.
type source struct {
	Name  string
	Lines []sourceLineOf
	More  int // lines that are not shown
}

type sourceLineOf struct {
	N      int
	Text   string
	Failed bool
}

// sourcesOf lists what a job runs, with the line marked at which it failed.
func sourcesOf(j *job.Job) (out []source) {
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
		return quoted(c.Argv)
	}
	var lines []string
	for _, s := range c.Steps {
		lines = append(lines, s.Name+": "+quoted(s.Argv))
	}
	return strings.Join(lines, "\n")
}

// quoted is a command as a shell reads it.
func quoted(argv []string) string {
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
func sourceOf(name, code string, failed int) source {
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	first := 0
	if failed > sourceLines-20 && failed <= len(lines) {
		first = failed - sourceLines/2
	}
	last := min(first+sourceLines, len(lines))
	s := source{Name: shown.Line(name, maxLine), More: len(lines) - (last - first)}
	for i := first; i < last; i++ {
		text, cut := shown.Text(lines[i], sourceLine)
		if cut {
			text += "…"
		}
		s.Lines = append(s.Lines, sourceLineOf{N: i + 1, Text: text, Failed: i+1 == failed})
	}
	return s
}

// display is something to look at that a program made.
type display struct {
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

// displays are what a page shows of figures and tables. An image is one of pixels, by its own first bytes: others could have
// scripts in them.
func displays(all []job.Display) (out []display) {
	for _, d := range all[:min(len(all), displaysShown)] {
		out = append(out, displayOf(d))
	}
	return out
}

func displayOf(d job.Display) display {
	if d.Table != nil {
		return display{Table: cutTable(d.Table)}
	}
	media := shown.Line(d.MediaType, 60)
	if d.Base64 == "" || len(d.Base64) > maxImage {
		return display{Words: media + " " + shown.Line(d.Path, maxLine)}
	}
	raw, err := base64.StdEncoding.DecodeString(d.Base64)
	if err != nil {
		return display{Words: media + ", which cannot be read"}
	}
	switch is := http.DetectContentType(raw); is {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return display{Image: template.URL("data:" + is + ";base64," + base64.StdEncoding.EncodeToString(raw))}
	}
	return display{Words: media + ", " + shown.Bytes(int64(len(raw)))}
}

func cutTable(t *job.Table) *job.Table {
	cut := job.Table{Columns: t.Columns[:min(len(t.Columns), tableColumns)], Total: t.Total}
	for _, row := range t.Rows[:min(len(t.Rows), tableRows)] {
		cut.Rows = append(cut.Rows, row[:min(len(row), tableColumns)])
	}
	return &cut
}

// again is how to run a job once more by other ways.
type again struct {
	Curl, CLI, Python string
	Whole             bool // the spec is in it
}

// maxInline is the largest spec that is written out, in bytes.
const maxInline = 16 << 10

// again says how the visitor runs a job again. What programs wrote is quoted for the shell, and for Python.
func (v *visit) again(j *job.Job) (a again) {
	scheme := "http"
	if v.r.TLS != nil || v.s.Secure {
		scheme = "https"
	}
	url := scheme + "://" + v.r.Host
	raw, err := json.Marshal(j.Spec)
	if err != nil {
		return a
	}
	file := string(j.ID) + ".json"
	body, data := "", "@"+file
	if a.Whole = len(raw) <= maxInline; a.Whole {
		body, data = " <<'ASSAY'\n"+string(raw)+"\nASSAY", "@-"
	}
	a.Curl = "curl -sS " + quoted([]string{url + "/v1/run"}) + " \\\n  -H \"Authorization: Bearer $ASSAY_TOKEN\" -H 'Content-Type: application/json' \\\n  --data-binary " + data + body
	in := " <" + file
	if a.Whole {
		in = body
	}
	a.CLI = "ASSAY_URL=" + quoted([]string{url}) + " assay batch submit -" + in
	spec := "open(" + strconv.Quote(file) + ").read()"
	if a.Whole {
		spec = strconv.QuoteToASCII(string(raw))
	}
	a.Python = "import json, assay\n\nclient = assay.Client(" + strconv.Quote(url) + ")\nspec = json.loads(" + spec + ")\nprint(client.api.run(spec))"
	return a
}

package ui

import (
	"encoding/json"
	"strconv"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// rerunCommands has commands that run a job again.
type rerunCommands struct {
	Curl, CLI, Python string
	Whole             bool // whether they contain the spec
}

// maxInline is the largest spec in the commands, in bytes.
const maxInline = 16 << 10

// rerun returns commands with which the visitor can run a job again. They quote text of programs for the shell and for
// Python.
func (v *visit) rerun(j *job.Job) (a rerunCommands) {
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
	a.Curl = "curl -sS " + display.Quoted([]string{url + "/v1/run"}) + " \\\n  -H \"Authorization: Bearer $ASSAY_TOKEN\" -H 'Content-Type: application/json' \\\n  --data-binary " + data + body
	in := " <" + file
	if a.Whole {
		in = body
	}
	a.CLI = "ASSAY_URL=" + display.Quoted([]string{url}) + " assay batch submit -" + in
	spec := "open(" + strconv.Quote(file) + ").read()"
	if a.Whole {
		spec = strconv.QuoteToASCII(string(raw))
	}
	a.Python = "import json, assay\n\nclient = assay.Client(" + strconv.Quote(url) + ")\nspec = json.loads(" + spec + ")\nprint(client.api.run(spec))"
	return a
}

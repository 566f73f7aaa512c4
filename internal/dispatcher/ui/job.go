package ui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// casesShown is the number of test cases per page.
const casesShown = 100

// stream is one output of a job or of one of its steps.
type stream struct {
	Name, Of string // stdout or stderr; the step, "" for the whole job
	Step     int    // -1: the whole job
	Output   job.Output
	URL      string // address of the complete output
	Raw      string
}

// phase is a part of the time that a job took.
type phase struct {
	display.Part
	MS float64
}

type jobPage struct {
	Job     *job.Job
	Name    string
	Result  *job.Result // nil: not finished
	Kind    string
	Phases  []phase
	Sources []display.Source
	Streams []stream
	Cases   casePage
	Shows   []display.Display
	Again   rerunCommands
}

// LiveStreams returns the outputs that the page shows while the job runs.
func (jobPage) LiveStreams() []string { return []string{"stdout", "stderr"} }

// casePage is a page of test cases.
type casePage struct {
	Rows         []job.CaseResult
	From, All    int
	Failed       bool // only failed cases
	Prev, Next   string
	Toggle, Name string
}

func (s *Server) job(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	var j job.Job
	if err := v.get("/v1/jobs/"+string(id), nil, &j); err != nil {
		return err
	}
	p := jobPage{Job: &j, Name: j.Spec.Name, Result: j.Result, Kind: j.Spec.Program.Kind(), Again: v.rerun(&j)}
	if p.Name == "" {
		p.Name = "Job " + shortID(j.ID)
	}
	p.Sources = display.SourcesOf(&j)
	if p.Result != nil {
		p.Phases = phasesOf(p.Result.Timings)
		p.Streams = streamsOf(&j)
		p.Cases = casesOf(v.r.URL, p.Result.Tests)
		p.Shows = display.Displays(p.Result.Display)
	}
	return v.show("job", display.Line(p.Name, 80), !j.State.Terminal(), p)
}

// phasesOf returns the phases of a job's time in their order.
func phasesOf(t job.Timings) []phase {
	var parts []display.Part
	times := map[string]float64{}
	for _, p := range []struct {
		class, label string
		ms           float64
	}{{"wait", "queued", t.QueuedMS}, {"slot", "waiting for a slot", t.SlotMS}, {"fetch", "fetching inputs", t.FetchMS},
		{"run", "running", t.RunMS}, {"collect", "collecting files", t.CollectMS}, {"record", "recording", t.RecordMS}} {
		times[p.label] = p.ms
		parts = append(parts, display.Part{Class: p.class, Label: p.label, N: int64(p.ms * 100)}) // less than 0.01 ms counts as nothing
	}
	var out []phase
	for _, p := range display.Bar(parts) {
		out = append(out, phase{p, times[p.Label]})
	}
	return out
}

// streamsOf lists the outputs of a job.
func streamsOf(j *job.Job) (out []stream) {
	add := func(name, of string, step int, o job.Output) {
		if o.Text == "" && o.Bytes == 0 {
			return
		}
		at := "/ui/jobs/" + string(j.ID)
		q := ""
		if step >= 0 {
			q = "?step=" + strconv.Itoa(step)
		}
		out = append(out, stream{Name: name, Of: of, Step: step, Output: o, URL: at + "/log/" + name + q, Raw: at + "/output/" + name + q})
	}
	r := j.Result
	if c := r.Compiled; c != nil {
		for _, o := range []struct {
			name string
			job.Output
		}{{"stdout", c.Stdout}, {"stderr", c.Stderr}} {
			if o.Text != "" {
				out = append(out, stream{Name: o.name, Of: "compiler", Step: -1, Output: o.Output})
			}
		}
	}
	if len(r.Steps) == 0 {
		add("stdout", "", -1, r.Stdout)
		add("stderr", "", -1, r.Stderr)
	}
	for i, step := range r.Steps {
		add("stdout", step.Name, i, step.Stdout)
		add("stderr", step.Name, i, step.Stderr)
	}
	return out
}

// casesOf returns the page of test cases that the address selects.
func casesOf(u *url.URL, t *job.TestsResult) (p casePage) {
	if t == nil {
		return p
	}
	q := u.Query()
	p.Failed = q.Get("cases") == "failed"
	rows := t.Cases
	if p.Failed {
		rows = slices.DeleteFunc(slices.Clone(rows), func(c job.CaseResult) bool { return c.Passed })
	}
	p.All = len(rows)
	p.From, _ = strconv.Atoi(q.Get("case")) // the default is 0
	p.From = min(max(p.From, 0), max(p.All-1, 0)) / casesShown * casesShown
	p.Rows = rows[p.From:min(p.From+casesShown, p.All)]
	address := func(from int, failed bool) string {
		q := url.Values{}
		if from > 0 {
			q.Set("case", strconv.Itoa(from))
		}
		if failed {
			q.Set("cases", "failed")
		}
		return u.Path + "?" + q.Encode() + "#tests"
	}
	if p.From > 0 {
		p.Prev = address(p.From-casesShown, p.Failed)
	}
	if p.From+casesShown < p.All {
		p.Next = address(p.From+casesShown, p.Failed)
	}
	p.Toggle = address(0, !p.Failed)
	return p
}

// spec serves the job's spec in a form that can be submitted again.
func (s *Server) spec(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	var j struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := v.get("/v1/jobs/"+string(id), url.Values{"fields": {"spec"}}, &j); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="`+string(id)+`.json"`)
	v.w.WriteHeader(http.StatusOK)
	_, _ = v.w.Write(j.Spec)
	return nil
}

// artifact serves a file that a program left, always as a download.
func (s *Server) artifact(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	v.api().Pass(v.w, v.r, "/v1/jobs/"+string(id)+"/artifacts/"+v.r.PathValue("path"), nil)
	return nil
}

// output serves a complete output or ranges of it.
func (s *Server) output(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	q := url.Values{}
	if step := v.r.URL.Query().Get("step"); step != "" {
		q.Set("step", step)
	}
	v.api().Pass(v.w, v.r, "/v1/jobs/"+string(id)+"/output/"+v.r.PathValue("stream"), q)
	return nil
}

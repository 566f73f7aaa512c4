package dropin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

// code-judge's default configuration. Its requests have no limits.
const (
	judgeWall    = 10 * time.Second
	judgeMemory  = 256 * job.MiB
	judgeCompile = 30 * time.Second
	judgeOutput  = 1000 // bytes of a stream in a response

	// judgeWait limits the whole wait for a submission, alone or in a batch. judgeLongWait is the limit in a long
	// batch, whose clients wait an hour.
	judgeWait     = judgeWall + 5*time.Second
	judgeLongWait = time.Hour - 30*time.Second
	// judgeAtOnce is the most concurrent submissions of a batch.
	judgeAtOnce = 64
	// judgeMost is the most submissions in a batch.
	judgeMost = 10_000
)

// codeJudge returns code-judge's routes under a prefix. The run routes also return outputs.
func (h *Handlers) codeJudge(prefix string) []web.Route {
	all := []web.Route{
		pong("GET " + prefix + "/ping"),
		at("GET "+prefix+"/status", failFusion, h.judgeStatus),
	}
	for _, path := range []string{"/judge", "/run"} {
		outputs := path == "/run"
		one := func(w http.ResponseWriter, r *http.Request) error { return h.judgeOne(w, r, outputs) }
		many := func(wait time.Duration) func(http.ResponseWriter, *http.Request) error {
			return func(w http.ResponseWriter, r *http.Request) error { return h.judgeMany(w, r, outputs, wait) }
		}
		all = append(all,
			at("POST "+prefix+path, failFusion, one),
			at("POST "+prefix+path+"/batch", failFusion, many(judgeWait)),
			at("POST "+prefix+path+"/long-batch", failFusion, many(judgeLongWait)))
	}
	return all
}

// submission is a program to judge. It passes if it succeeds and, if Expected is set, prints the expected output.
type submission struct {
	ID       string  `json:"sub_id"`
	Type     string  `json:"type"` // the language
	Solution *string `json:"solution"`
	Input    string  `json:"input"`
	Expected *string `json:"expected_output"`

	program *program
}

// Reasons of a result. Clients retry after queueTimeout, which is no verdict on the program.
const (
	workerTimeout = "worker_timeout"
	queueTimeout  = "queue_timeout"
	internalError = "internal_error"
)

// judged is the result of a submission. Clients reject results with unknown fields.
type judged struct {
	ID         string  `json:"sub_id"`
	Success    bool    `json:"success"`
	RunSuccess bool    `json:"run_success"`
	Cost       float64 `json:"cost"` // seconds
	Stdout     *string `json:"stdout,omitempty"`
	Stderr     *string `json:"stderr,omitempty"`
	Reason     string  `json:"reason"`

	extra *extra
}

type judgedBatch struct {
	ID      string   `json:"sub_id"`
	Results []judged `json:"results"`
	Assay   []*extra `json:"assay"` // one per result; may be null
}

func (h *Handlers) judgeOne(w http.ResponseWriter, r *http.Request, outputs bool) error {
	var s submission
	if err := body(w, r, web.MaxBody, &s); err != nil {
		return err
	}
	if err := s.read(""); err != nil {
		if text, ok := unfit(err); ok {
			return web.WriteJSON(w, http.StatusOK, s.refused(text, outputs))
		}
		return err
	}
	out, err := h.judge(r, &s, outputs, web.Arrived(r).Add(judgeWait))
	if err != nil {
		return err
	}
	if out.extra != nil {
		w.Header().Set("Assay-Job", string(out.extra.Job))
		w.Header().Set("Assay-Outcome", string(out.extra.Outcome))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func (h *Handlers) judgeMany(w http.ResponseWriter, r *http.Request, outputs bool, wait time.Duration) error {
	raw, err := readBody(w, r, web.MaxBatchBody)
	if err != nil {
		return err
	}
	var req struct {
		ID   string `json:"sub_id"`
		Type string `json:"type"`
	}
	if err := decode(raw, "", &req); err != nil {
		return err
	}
	var items struct { // decoded separately, so that an invalid submission does not fail the others
		Submissions []json.RawMessage `json:"submissions"`
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return job.Invalid("submissions", "must be a list: %v", err)
	}
	if n := len(items.Submissions); n == 0 || n > judgeMost {
		return job.Invalid("submissions", "has %d; it must have 1 to %d", n, judgeMost)
	}
	out := judgedBatch{ID: req.ID, Results: make([]judged, len(items.Submissions)), Assay: make([]*extra, len(items.Submissions))}
	if out.ID == "" {
		out.ID = string(job.NewID())
	}
	if err := h.judgeAll(r, items.Submissions, out.Results, outputs, web.Arrived(r).Add(wait)); err != nil {
		return err
	}
	for i := range out.Results {
		out.Assay[i] = out.Results[i].extra
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// judgeAll judges a batch, up to judgeAtOnce submissions at a time. A bad submission gets a result with its error. An
// error of judgeAll fails the whole request.
func (h *Handlers) judgeAll(r *http.Request, all []json.RawMessage, into []judged, outputs bool, until time.Time) error {
	var wg sync.WaitGroup
	places := make(chan struct{}, judgeAtOnce)
	errs := make([]error, len(all))
	for i, raw := range all {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			into[i], errs[i] = h.judgeItem(r, raw, fmt.Sprintf("submissions[%d]", i), outputs, until)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("submissions[%d]: %w", i, err)
		}
	}
	return nil
}

// judgeItem judges one submission of a batch.
func (h *Handlers) judgeItem(r *http.Request, raw json.RawMessage, field string, outputs bool, until time.Time) (judged, error) {
	var s submission
	err := decode(raw, field, &s)
	if err == nil {
		err = s.read(field + ".")
	}
	if text, ok := unfit(err); ok {
		return s.refused(text, outputs), nil
	}
	var out judged
	if err == nil {
		out, err = h.judge(r, &s, outputs, until)
	}
	if bad := new(job.FieldError); errors.As(err, &bad) && !strings.HasPrefix(bad.Field, "policy") { // an invalid policy affects all submissions
		s.identify(raw)
		out = s.refused(err.Error(), outputs)
		out.Reason, out.extra.Outcome = internalError, ""
		return out, nil
	}
	return out, err
}

// identify sets the id of an undecodable submission: from its JSON, or else a new one.
func (s *submission) identify(raw json.RawMessage) {
	if s.ID == "" {
		_ = json.Unmarshal(raw, &struct {
			ID *string `json:"sub_id"`
		}{&s.ID}) // ignores an id of another type
	}
	if s.ID == "" {
		s.ID = string(job.NewID())
	}
}

// refused returns the result of a submission that did not run.
func (s *submission) refused(text string, outputs bool) judged {
	s.identify(nil)
	out := judged{ID: s.ID, extra: refusedExtra(text)}
	if outputs {
		text = job.Clip(text, judgeOutput)
		out.Stdout, out.Stderr = new(string), &text
	}
	return out
}

// read makes a program of a submission. at is the prefix of field names in errors.
func (s *submission) read(at string) error {
	if s.Solution == nil {
		return job.Invalid(at+"solution", "is missing")
	}
	if s.ID == "" {
		s.ID = string(job.NewID())
	}
	p := &program{endpoint: CodeJudge, stdin: s.Input, inputs: map[string]job.File{}}
	p.wall, p.memory = judgeWall, judgeMemory
	p.compile.Wall = job.Duration(judgeCompile)
	var err error
	if p.language, err = find(at+"type", s.Type); err != nil {
		return err
	}
	if err = checkText(at+"input", s.Input, job.MaxSpec); err != nil {
		return err
	}
	if err = p.single(at+"solution", *s.Solution); err != nil {
		return err
	}
	p.raiseLimits()
	s.program = p
	return nil
}

// judge runs one submission. Lack of time is a result, which clients retry; an invalid submission is an error.
func (h *Handlers) judge(r *http.Request, s *submission, outputs bool, until time.Time) (judged, error) {
	e, err := h.run(r, s.program, until)
	switch {
	case r.Context().Err() != nil:
		return judged{}, r.Context().Err()
	case err != nil && isTemporary(err):
		return judged{ID: s.ID, Reason: queueTimeout}, nil
	case err != nil:
		return judged{}, err
	}
	return s.judged(e, outputs), nil
}

// judged compares the output with the expected output as code-judge does: without leading and trailing white space.
func (s *submission) judged(e *programResult, outputs bool) judged {
	out := judged{ID: s.ID, RunSuccess: e.Outcome == job.Succeeded, Cost: seconds(wall(&e.Usage)), extra: e.extra()}
	out.Success = out.RunSuccess && (s.Expected == nil || strings.TrimSpace(e.stdout) == strings.TrimSpace(*s.Expected))
	switch e.Outcome {
	case job.TimedOut:
		out.Reason = workerTimeout
	case job.SetupError:
		out.Reason = internalError
	}
	if outputs {
		stdout, stderr := e.stdout, e.stderr
		if e.Outcome == job.CompileError && e.Compiled != nil {
			stderr = e.Compiled.Stderr.Text
		}
		stdout, stderr = job.Clip(stdout, judgeOutput), job.Clip(stderr, judgeOutput)
		out.Stdout, out.Stderr = &stdout, &stderr
	}
	return out
}

// judgeStatus responds with the length of the queue and the number of workers.
func (h *Handlers) judgeStatus(w http.ResponseWriter, r *http.Request) error {
	waiting, workers, err := h.Jobs.Load(r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Queue   int64 `json:"queue"`
		Workers int   `json:"num_workers"`
	}{waiting, workers})
}

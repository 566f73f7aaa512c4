package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// action is a change that the page makes through the API after a confirmation.
type action struct {
	Name     string // label of the button
	Question string // %s is the subject
	Note     string // further consequences
	Danger   bool   // cannot be undone
	role     identity.Role
	fields   []field
	method   string
	path     string                                   // of the API; %s is the subject
	body     func(subject string, f url.Values) any   // nil: none
	said     func(subject string, raw []byte) string  // confirms the result
	next     func(subject string, raw []byte) string  // address of the next page; nil: the previous page
	wrong    func(subject string, f url.Values) error // rejects a form; nil: accepts all

	load  func(v *visit, p *confirmPage) error                                // completes the form; optional
	send  func(v *visit, subject string, f url.Values, rq *apiCall) error     // completes the request; optional
	stale func(v *visit, subject string) string                               // describes a concurrent change; optional
	once  func(v *visit, subject string, raw []byte, p *oncePage) (err error) // shows a secret once instead of redirecting; optional
}

// field is an input of a form. With options, it is a choice of one of them.
type field struct {
	Name, Label, Kind, Value, Hint string
	Options                        []string
}

// oncePage shows a value that cannot be shown again.
type oncePage struct{ Title, Said, Label, Value, Note, Back string }

var reason = field{Name: "reason", Label: "Reason", Kind: "text", Hint: "recorded with the action"}

func reasonOf(_ string, f url.Values) any { return api.OperatorRequest{Reason: f.Get("reason")} }

// recorded returns a function that describes the recorded action of an operator.
func recorded(done string) func(string, []byte) string {
	return func(subject string, raw []byte) string {
		var a store.Action
		_ = json.Unmarshal(raw, &a) // if this fails, the action still happened
		if a.Outcome == store.ActionUnchanged {
			return fmt.Sprintf("%s: it was already in this state, and nothing changed.", display.Line(subject, 80))
		}
		return fmt.Sprintf("%s %s.", display.Line(subject, 80), done)
	}
}

// actions by the last part of their address.
var actions = map[string]action{
	"cancel-job": {Name: "Cancel job", Question: "Cancel job %s?", Danger: true, role: identity.Submitter, method: http.MethodPost, path: "/v1/jobs/%s/cancel",
		said: func(_ string, raw []byte) string {
			var a api.Accepted
			if json.Unmarshal(raw, &a) == nil && !a.State.Terminal() {
				return "The worker will stop the job."
			}
			return "The job is canceled."
		}},
	"cancel-batch": {Name: "Cancel batch", Question: "Cancel batch %s?", Note: "Waiting jobs end at once, and running jobs are stopped. Finished jobs keep their results.", Danger: true,
		role: identity.Submitter, method: http.MethodPost, path: "/v1/batches/%s/cancel",
		said: func(_ string, raw []byte) string {
			var b job.Batch
			_ = json.Unmarshal(raw, &b)
			return fmt.Sprintf("The batch is canceled: %s of its jobs never ran or were stopped, %s are being stopped.", display.Count(b.Counts[job.Canceled]), display.Count(b.Counts[job.Running]))
		}},
	"retry-batch": {Name: "Retry batch", Question: "Submit the unsuccessful jobs of batch %s again?", Note: "They become a new batch.", role: identity.Submitter,
		method: http.MethodPost, path: "/v1/batches/%s/retry",
		said: func(_ string, raw []byte) string {
			var b job.Batch
			_ = json.Unmarshal(raw, &b)
			return fmt.Sprintf("%s jobs are submitted again, as this batch.", display.Count(b.Total))
		},
		next: func(_ string, raw []byte) string {
			var b job.Batch
			if json.Unmarshal(raw, &b) != nil || b.ID == "" {
				return "/ui/batches"
			}
			return "/ui/batches/" + string(b.ID)
		}},
	"end-session": {Name: "End session", Question: "End session %s?", Note: "This deletes its variables and files.", Danger: true, role: identity.Submitter, method: http.MethodDelete, path: "/v1/sessions/%s",
		said: func(string, []byte) string { return "The session has ended." }},
	"interrupt-session": {Name: "Interrupt", Question: "Interrupt the execution in session %s?", role: identity.Submitter, method: http.MethodPost, path: "/v1/sessions/%s/interrupt",
		said: func(string, []byte) string { return "The execution is interrupted." }},

	"cordon": {Name: "Cordon", Question: "Keep worker %s from taking jobs?", Note: "Its running jobs continue. It takes no new jobs until it is uncordoned.", role: identity.Operator, fields: []field{reason},
		method: http.MethodPost, path: "/v1/admin/workers/%s/cordon", body: reasonOf, said: recorded("takes no more jobs")},
	"uncordon": {Name: "Uncordon", Question: "Let worker %s take jobs again?", role: identity.Operator, fields: []field{reason},
		method: http.MethodPost, path: "/v1/admin/workers/%s/uncordon", body: reasonOf, said: recorded("takes jobs again")},
	"quarantine": {Name: "Quarantine", Question: "Put worker %s into quarantine?", Note: "It takes no jobs for that time, and then tries one at a time.", role: identity.Operator,
		fields: []field{{Name: "for", Label: "For", Kind: "text", Value: "10m", Hint: "such as 90s, 10m or 2h"}, reason}, method: http.MethodPost, path: "/v1/admin/workers/%s/quarantine",
		wrong: wrongDuration, said: recorded("is in quarantine"),
		body: func(_ string, f url.Values) any {
			return map[string]string{"for": strings.TrimSpace(f.Get("for")), "reason": f.Get("reason")}
		}},
	"unquarantine": {Name: "End quarantine", Question: "End the quarantine of worker %s?", role: identity.Operator, fields: []field{reason},
		method: http.MethodPost, path: "/v1/admin/workers/%s/unquarantine", body: reasonOf, said: recorded("is out of quarantine")},
	"requeue": {Name: "Requeue", Question: "Requeue the jobs of worker %s?", Note: "Their attempts on this worker end and do not count. Cordon the worker first, or it may take them again.", Danger: true,
		role: identity.Operator, fields: []field{reason}, method: http.MethodPost, path: "/v1/admin/requeue", wrong: noReason,
		body: func(w string, f url.Values) any { return api.RequeueRequest{Worker: w, Reason: f.Get("reason")} },
		said: func(w string, _ []byte) string { return "The jobs of " + display.Line(w, 80) + " are queued again." }},

	"cordon-workers":   ofWorkers("Cordon workers", "Keep the workers of pool %s from taking jobs?", "Their running jobs continue. Workers that connect later are not cordoned.", "cordon"),
	"uncordon-workers": ofWorkers("Uncordon workers", "Let the workers of pool %s take jobs again?", "", "uncordon"),

	"pause-batch":   pausing("batch", "Pause", "pause", "is paused: its waiting jobs stay queued"),
	"resume-batch":  pausing("batch", "Resume", "resume", "goes on"),
	"pause-tenant":  pausing("tenant", "Pause", "pause", "is paused: its waiting jobs stay queued"),
	"resume-tenant": pausing("tenant", "Resume", "resume", "goes on"),
	"pause-pool":    pausing("pool", "Pause", "pause", "is paused: jobs that wait for it stay queued"),
	"resume-pool":   pausing("pool", "Resume", "resume", "goes on"),
	"override": {Name: "Change limits", Question: "Change the limits of tenant %s?", Note: "The new limits replace the granted ones until the change ends. Empty fields stay unchanged.", role: identity.Operator,
		fields: []field{{Name: "weight", Label: "Weight", Kind: "text", Hint: "share of the fleet when it is contended, such as 2"},
			{Name: "max_running", Label: "Most running jobs", Kind: "text", Hint: "0: no limit"}, {Name: "for", Label: "For", Kind: "text", Hint: "such as 2h; empty: no end"}, reason},
		method: http.MethodPost, path: "/v1/admin/tenants/%s/override", wrong: wrongOverride, body: overrideOf, said: recorded("has other limits now")},
	"grant": grant, "make-key": makeKey, "revoke-key": revokeKey, "delete-job": deleteJob, "delete-batch": deleteBatch, "link-artifact": linkArtifact,
	"restore": {Name: "End change of limits", Question: "Restore the granted limits of tenant %s?", role: identity.Operator, fields: []field{reason},
		method: http.MethodPost, path: "/v1/admin/tenants/%s/restore", body: reasonOf, said: recorded("is as it is granted")},
}

// ofWorkers is an action on the workers of a pool, all of them or those of a version or with a label.
func ofWorkers(name, question, note, verb string) action {
	return action{Name: name, Question: question, Note: note, role: identity.Operator, method: http.MethodPost, path: "/v1/admin/workers/" + verb,
		fields: []field{{Name: "version", Label: "Version", Kind: "text", Hint: "empty: all versions"}, {Name: "label", Label: "Label", Kind: "text", Hint: "key=value; empty: all"}, reason},
		wrong: func(_ string, f url.Values) error {
			if text := strings.TrimSpace(f.Get("label")); text != "" && !strings.Contains(text, "=") {
				return job.Invalid("label", "%.80q must have the form key=value", text)
			}
			return nil
		},
		body: func(pool string, f url.Values) any {
			rq := api.WorkersRequest{Reason: f.Get("reason")}
			rq.Workers.Pool, rq.Workers.Version = pool, strings.TrimSpace(f.Get("version"))
			if key, value, ok := strings.Cut(strings.TrimSpace(f.Get("label")), "="); ok {
				rq.Workers.Labels = map[string]string{key: value}
			}
			return rq
		},
		said: func(_ string, raw []byte) string {
			var report api.WorkersReport
			_ = json.Unmarshal(raw, &report) // if this fails, the action still happened
			return fmt.Sprintf("Matching workers: %d, changed: %d.", len(report.Workers), report.Changed)
		}}
}

func pausing(what, name, verb, done string) action {
	return action{Name: name, Question: name + " " + what + " %s?", role: identity.Operator, fields: []field{reason}, method: http.MethodPost, path: "/v1/admin/" + verb,
		body: func(subject string, f url.Values) any {
			return map[string]string{what: subject, "reason": f.Get("reason")}
		}, said: recorded(done)}
}

func noReason(_ string, f url.Values) error {
	if strings.TrimSpace(f.Get("reason")) == "" {
		return job.Invalid("reason", "is required: it is recorded with the attempts")
	}
	return nil
}

func wrongDuration(_ string, f url.Values) error {
	if d, err := time.ParseDuration(strings.TrimSpace(f.Get("for"))); err != nil || d <= 0 {
		return job.Invalid("for", "%.40q must be a time such as 90s, 10m or 2h", f.Get("for"))
	}
	return nil
}

func wrongOverride(subject string, f url.Values) error {
	if text := strings.TrimSpace(f.Get("weight")); text != "" {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return job.Invalid("weight", "%.40q must be a number", text)
		}
	}
	if text := strings.TrimSpace(f.Get("max_running")); text != "" {
		if _, err := strconv.Atoi(text); err != nil {
			return job.Invalid("max_running", "%.40q must be a whole number, 0 for no limit", text)
		}
	}
	if strings.TrimSpace(f.Get("for")) != "" {
		return wrongDuration(subject, f)
	}
	return nil
}

func overrideOf(_ string, f url.Values) any {
	body := map[string]any{"reason": f.Get("reason")}
	if v, err := strconv.ParseFloat(strings.TrimSpace(f.Get("weight")), 64); err == nil {
		body["weight"] = v
	}
	if n, err := strconv.Atoi(strings.TrimSpace(f.Get("max_running"))); err == nil {
		body["max_running"] = n
	}
	if d := strings.TrimSpace(f.Get("for")); d != "" {
		body["for"] = d
	}
	return body
}

type confirmPage struct {
	Key, Subject, Question, Back, Once, Wrong string
	Action                                    action
	Fields                                    []field
}

// set sets a field's value if it is empty.
func (p *confirmPage) set(name, value string) {
	for i, f := range p.Fields {
		if f.Name == name && f.Value == "" {
			p.Fields[i].Value = value
		}
	}
}

// asked returns the action of the path, and the page that asks for its confirmation.
func (v *visit) asked() (a action, p confirmPage, err error) {
	key := v.r.PathValue("action")
	a, ok := actions[key]
	if !ok {
		return a, p, errNoPage
	}
	if v.who.Role < a.role {
		return a, p, fmt.Errorf("%w: %q requires the role %s, and yours is %s", job.ErrRefused, a.Name, a.role, v.who.Role)
	}
	subject := v.r.FormValue("on")
	if subject == "" || len(subject) > 300 {
		return a, p, job.Invalid("on", "must name the subject of the action")
	}
	p = confirmPage{Key: key, Subject: subject, Question: fmt.Sprintf(a.Question, display.Line(subject, 120)), Back: back(v.r.FormValue("back")), Once: string(job.NewID()), Action: a}
	p.Fields = append(p.Fields, a.fields...)
	for i, f := range p.Fields {
		if given, ok := v.r.Form[f.Name]; ok {
			p.Fields[i].Value = given[0]
		}
	}
	return a, p, nil
}

// ask shows the confirmation page of an action.
func (s *Server) ask(v *visit) error {
	a, p, err := v.asked()
	if err == nil && a.load != nil {
		err = a.load(v, &p)
	}
	if err != nil {
		return err
	}
	return v.show("confirm", a.Name, false, p)
}

// act performs an action. It then shows the result on the page that the visitor came from.
func (s *Server) act(v *visit) error {
	a, p, err := v.asked()
	if err != nil {
		return err
	}
	if a.wrong != nil {
		if err := a.wrong(p.Subject, v.r.PostForm); err != nil {
			p.Wrong = api.NewProblem(err).Detail
			return v.showAs(http.StatusUnprocessableEntity, "confirm", a.Name, false, p)
		}
	}
	got, err := v.ordered(a, p.Subject)
	if err != nil {
		problem := api.NewProblem(err)
		if p.Wrong = problem.Detail; errors.Is(err, job.ErrStale) && a.stale != nil {
			p.Wrong = a.stale(v, p.Subject)
		}
		return v.showAs(problem.Status, "confirm", a.Name, false, p)
	}
	raw := got.Body.Bytes()
	if a.once != nil {
		shows := oncePage{Title: a.Name, Back: p.Back}
		if err := a.once(v, p.Subject, raw, &shows); err != nil {
			return err
		}
		return v.show("once", a.Name, false, shows)
	}
	v.say(a.said(p.Subject, raw))
	to := p.Back
	if a.next != nil {
		to = a.next(p.Subject, raw)
	}
	return v.to(to)
}

// ordered sends the API request of a form.
func (v *visit) ordered(a action, subject string) (*apiAnswer, error) {
	rq := apiCall{Method: a.method, Path: a.path, Header: http.Header{}}
	if strings.Contains(a.path, "%s") {
		rq.Path = fmt.Sprintf(a.path, subject)
	}
	if a.body != nil {
		rq.Body = a.body(subject, v.r.PostForm)
	}
	if once := v.r.PostForm.Get("once"); once != "" && len(once) < 100 {
		rq.Header.Set(api.HeaderIdempotencyKey, once) // sending the form twice has no further effect
	}
	if a.send != nil {
		if err := a.send(v, subject, v.r.PostForm, &rq); err != nil {
			return nil, err
		}
	}
	return v.api().Do(v.r.Context(), rq)
}

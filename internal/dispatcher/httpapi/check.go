package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// maxChecks is the most programs in one request.
	maxChecks = 1000
	// maxCheckNames is the most names that a request may give for one program.
	maxCheckNames = 1000
	// checkWait is the default limit for a check, including the wait for a worker.
	checkWait = time.Minute
	// checkSeconds limits the time for all programs of a request. The report marks programs that are not checked by
	// then. It is less than the job's wall limit, which is the default.
	checkSeconds = 25
	// maxFindings is the most bytes read of a check's output, and the largest output that a policy allows.
	maxFindings = 16 << 20
	// checkRoom is the part of a job's maximum size reserved for the checking program.
	checkRoom = 256 << 10
)

// checkPolicy is the policy of checking jobs: the defaults, with room for the output.
var checkPolicy = json.RawMessage(`{"stdout":{"limit":"16Mi"}}`)

// check analyses programs without running them. Parsing hostile programs is risky, and only the image's own Python
// parses them exactly. So the check runs as a job named check, with limits, quotas and a record like any other job.
func (s *Server) check(w http.ResponseWriter, r *http.Request) error {
	wait, err := web.Wait(r, checkWait)
	if err != nil {
		return err
	}
	var req api.CheckRequest
	if err := web.ReadJSON(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	spec, err := s.checkSpec(r.Context(), web.Tenant(r), req, wait)
	if err != nil {
		return err
	}
	a, raw, err := s.ran(r, wait, func(watch func(job.ID)) (api.Accepted, error) {
		return s.submit(w, r, spec, store.Idempotency{}, watch)
	})
	w.Header().Del("Location")
	if a.ID != "" && raw == nil { // the client has stopped waiting
		s.cancelOwn(r, a.ID)
	}
	if err != nil {
		return err
	}
	if raw == nil {
		return fmt.Errorf("%w: no worker finished it within %v; it is canceled, try again", job.ErrUnavailable, wait)
	}
	report, err := s.findings(r.Context(), web.Tenant(r), raw)
	if err != nil {
		return err
	}
	if len(report.Programs) != len(req.Programs) {
		return fmt.Errorf("%w: job %s has %d answers for %d programs", job.ErrUnavailable, report.Job, len(report.Programs), len(req.Programs))
	}
	for i := range report.Programs {
		complete(&report.Programs[i], req.Programs[i].Name)
	}
	return web.WriteJSON(w, http.StatusOK, report)
}

// cancelOwn cancels a job of the server itself, even if the request has ended.
func (s *Server) cancelOwn(r *http.Request, id job.ID) {
	c, err := s.Store.Cancel(context.WithoutCancel(r.Context()), id)
	if err != nil {
		s.Log.WarnContext(r.Context(), "check job not canceled", "job", id, "error", err)
		return
	}
	s.stop(r, c)
}

// checkedProgram is one program in the input of the checking program.
type checkedProgram struct {
	Code     string   `json:"code"`
	Given    []string `json:"given,omitempty"`
	Allow    []string `json:"allow,omitempty"`
	Deny     []string `json:"deny,omitempty"`
	Packages bool     `json:"packages,omitempty"`
}

// checkSpec validates a request and makes a job of it.
func (s *Server) checkSpec(ctx context.Context, tenant string, req api.CheckRequest, wait time.Duration) ([]byte, error) {
	if n := len(req.Programs); n == 0 || n > maxChecks {
		return nil, job.Invalid("programs", "has %d programs; from 1 to %d can be checked at once", n, maxChecks)
	}
	rules, known := "", map[string]checkedProgram{}
	programs := make([]checkedProgram, len(req.Programs))
	for i, p := range req.Programs {
		at := fmt.Sprintf("programs[%d]", i)
		if err := judgeProgram(at, p); err != nil {
			return nil, err
		}
		of, ok := known[string(p.Policy)]
		if !ok {
			resolved, err := s.Admit.Resolve(ctx, tenant, p.Policy)
			if err != nil {
				return nil, prefixFields(at, err)
			}
			of = checkedProgram{Allow: resolved.Imports.Allow, Deny: resolved.Imports.Deny, Packages: len(resolved.Packages) > 0}
			known[string(p.Policy)] = of
		}
		if len(of.Allow)+len(of.Deny) > 0 {
			rules = python.ImportRules()
		}
		of.Code, of.Given = p.Code, p.Names
		programs[i] = of
	}
	return checkJob(req, programs, rules, wait)
}

func checkJob(req api.CheckRequest, programs []checkedProgram, rules string, wait time.Duration) ([]byte, error) {
	variables := map[string]json.RawMessage{}
	for name, v := range map[string]any{"programs": programs, "rules": rules, "seconds": checkSeconds} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode check: %w", err)
		}
		variables[name] = raw
	}
	if n := len(variables["programs"]); n > int(job.MaxSpec)-checkRoom {
		return nil, fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("programs", "are %s together; at most %s, send them in several requests", job.Size(n), job.MaxSpec-checkRoom))
	}
	return json.Marshal(job.Spec{
		Name: "check", Image: req.Image, Pool: req.Pool, Policy: checkPolicy, ExpiresIn: job.Duration(max(wait, time.Second)),
		Program: job.Program{Python: &job.Python{Code: python.Static(), Variables: variables}},
	})
}

func judgeProgram(at string, p api.CheckProgram) error {
	if len(p.Name) > job.MaxName {
		return job.Invalid(at+".name", "is %d bytes; at most %d", len(p.Name), job.MaxName)
	}
	if len(p.Code) > int(job.MaxCode) {
		return fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid(at+".code", "is %d bytes; at most %s", len(p.Code), job.MaxCode))
	}
	if len(p.Names) > maxCheckNames {
		return job.Invalid(at+".names", "has %d names; at most %d", len(p.Names), maxCheckNames)
	}
	for i, name := range p.Names {
		if !job.PythonName(name) {
			return job.Invalid(fmt.Sprintf("%s.names[%d]", at, i), "%.80q is not a name", name)
		}
	}
	return nil
}

// prefixFields prefixes the fields of an error with a field of the request.
func prefixFields(at string, err error) error {
	kind := job.ErrInvalid
	for _, k := range []error{job.ErrRefused, job.ErrTooMany, job.ErrUnavailable} {
		if errors.Is(err, k) {
			kind = k
		}
	}
	var out error
	for _, f := range api.FieldErrors(err) {
		moved := &job.FieldError{Field: at + "." + f.Field, Problem: f.Problem}
		if out == nil {
			out = moved
			continue
		}
		out = fmt.Errorf("%w; %w", out, moved)
	}
	switch {
	case out == nil:
		return err
	case kind == job.ErrInvalid:
		return out
	}
	return fmt.Errorf("%w: %w", kind, out)
}

// findings reads the result of a check. Do not trust it: it comes from a sandbox that read hostile programs.
func (s *Server) findings(ctx context.Context, tenant string, raw json.RawMessage) (report api.CheckReport, err error) {
	var res job.Result
	if err := json.Unmarshal(raw, &res); err != nil {
		return report, fmt.Errorf("decode the recorded result of a check: %w", err)
	}
	if res.Outcome != job.Succeeded {
		said := cmp.Or(res.Message, "see the job's record")
		if res.Outcome == job.SetupError { // only the image of the request can cause it, and a retry would not help
			return report, job.Invalid("image", "the check failed: %s (job %s)", said, res.ID)
		}
		return report, fmt.Errorf("%w: the check ended as %s: %s (job %s)", job.ErrUnavailable, res.Outcome, said, res.ID)
	}
	if res.Stdout.Truncated {
		return report, fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("programs", "print more than the %s that a check may print; send fewer programs at once", job.Size(maxFindings)))
	}
	text := []byte(res.Stdout.Text)
	if o := res.Stdout.Stored; o != nil {
		body, err := s.files.OpenOutput(ctx, tenant, res.ID, "stdout", object.WholeOutput, o)
		if err != nil {
			return report, fmt.Errorf("open the findings of a check: %w", err)
		}
		defer body.Close()
		if text, err = io.ReadAll(io.LimitReader(body, maxFindings)); err != nil {
			return report, fmt.Errorf("read the findings of a check: %w", err)
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("%w: the findings of job %s cannot be read: %w", job.ErrUnavailable, res.ID, err)
	}
	report.Digest, report.Job = res.ImageDigest, res.ID
	return report, nil
}

// complete adds the name and the verdict, and replaces nil lists by empty ones.
func complete(c *api.Checked, name string) {
	c.Name, c.OK = name, c.Error == nil
	for _, i := range c.Imports {
		c.OK = c.OK && !i.Forbidden
	}
	list(&c.Imports)
	list(&c.Undefined)
	list(&c.Functions)
	list(&c.Classes)
	for i := range c.Classes {
		list(&c.Classes[i].Bases)
		list(&c.Classes[i].Methods)
	}
}

// list replaces a nil list by an empty one.
func list[T any](l *[]T) {
	if *l == nil {
		*l = []T{}
	}
}

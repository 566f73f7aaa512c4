package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// ProblemDetails is an RFC 9457 problem document.
type ProblemDetails struct {
	Type     string         `json:"type"`
	Title    string         `json:"title"`
	Status   int            `json:"status"`
	Detail   string         `json:"detail,omitempty"`
	Instance string         `json:"instance,omitempty"` // trace id of the request
	Errors   []FieldProblem `json:"errors,omitempty"`
}

// FieldProblem pins a problem to one field, and in a batch to one line.
type FieldProblem struct {
	Field   string `json:"field,omitempty"`
	Line    int    `json:"line,omitempty"`
	Problem string `json:"problem"`
}

// ErrUnauthorized is a request without a token, or with one that is unknown.
var ErrUnauthorized = errors.New("unauthorized")

// ErrMethod is a request that its address does not take.
var ErrMethod = errors.New("method not allowed")

// ErrMismatch is a body that is not what its digest says.
var ErrMismatch = errors.New("digest mismatch")

// ErrSlow is a body that stood still, or came too slowly.
var ErrSlow = errors.New("request timed out")

// problems is the one table between errors and HTTP. The first match from the
// top wins in both directions; the last entry is the answer to everything else.
var problems = []struct {
	err    error
	kind   string // last part of the problem's type
	status int
	title  string
}{
	{ErrSlow, "slow-body", http.StatusRequestTimeout, "The body came too slowly"},
	{job.ErrTooLarge, "too-large", http.StatusRequestEntityTooLarge, "Too large"},
	{job.ErrTooMany, "too-many", http.StatusTooManyRequests, "Too many"},
	{job.ErrKeyUsed, "key-used", http.StatusUnprocessableEntity, "Idempotency key used for another request"},
	{job.ErrStale, "stale", http.StatusPreconditionFailed, "Changed since it was read"},
	{job.ErrConflict, "conflict", http.StatusConflict, "Not in this state"},
	{job.ErrRefused, "refused", http.StatusForbidden, "Refused"},
	{ErrMismatch, "digest-mismatch", http.StatusUnprocessableEntity, "Body does not match its digest"},
	{job.ErrInvalid, "invalid", http.StatusUnprocessableEntity, "Invalid request"},
	{ErrUnauthorized, "unauthorized", http.StatusUnauthorized, "Unauthorized"},
	{ErrMethod, "method", http.StatusMethodNotAllowed, "Method not allowed"},
	{job.ErrNotFound, "not-found", http.StatusNotFound, "Not found"},
	{job.ErrGone, "gone", http.StatusGone, "Gone"},
	{job.ErrLost, "lost", http.StatusConflict, "Lost"},
	{job.ErrUnavailable, "unavailable", http.StatusServiceUnavailable, "Temporarily unavailable"},
	{context.DeadlineExceeded, "timeout", http.StatusServiceUnavailable, "Timed out"},
	{errInternal, "internal", http.StatusInternalServerError, "Internal error"},
}

// Sentinels are the errors that travel over HTTP: what a client gets back is one of them, by errors.Is, or a failure of
// the server's own.
func Sentinels() (out []error) {
	for _, p := range problems[:len(problems)-1] {
		out = append(out, p.err)
	}
	return out
}

var errInternal = errors.New("internal error")

const problemBase = "https://assay.run/problems/"

// NewProblem describes err as a problem document. An error that is not in the
// table is ours, and its text stays in the log.
func NewProblem(err error) ProblemDetails {
	row := problems[len(problems)-1]
	for _, p := range problems {
		if errors.Is(err, p.err) {
			row = p
			break
		}
	}
	out := ProblemDetails{Type: problemBase + row.kind, Title: row.title, Status: row.status}
	if row.err == errInternal {
		out.Detail = "something failed on our side; the trace id names the request in the logs"
		return out
	}
	out.Detail = detail(err, row.err)
	for _, f := range FieldErrors(err) {
		out.Errors = append(out.Errors, FieldProblem{Field: f.Field, Line: f.Line, Problem: f.Problem})
	}
	return out
}

// detail is what the outermost error says that gives sentinel as its own reason. Those around it
// say by which of our layers it came, which is for the log.
func detail(err, sentinel error) string {
	var network net.Error
	switch {
	case sentinel == context.DeadlineExceeded:
		return "it took too long here; try again"
	case sentinel == job.ErrUnavailable && errors.As(err, &network): // whose text has names and addresses of ours
		return sentinel.Error() + ": a part of the fleet does not answer; try again"
	}
	for e := err; e != nil; {
		if _, field := e.(*job.FieldError); field {
			return e.Error()
		}
		switch u := e.(type) {
		case interface{ Unwrap() []error }:
			for _, reason := range u.Unwrap() {
				if reason == sentinel {
					return e.Error()
				}
			}
			e = matching(u.Unwrap(), sentinel)
		case interface{ Unwrap() error }:
			if u.Unwrap() == sentinel {
				return e.Error()
			}
			e = u.Unwrap()
		default:
			return err.Error()
		}
	}
	return err.Error()
}

// matching returns the first of errs that is sentinel.
func matching(errs []error, sentinel error) error {
	for _, e := range errs {
		if errors.Is(e, sentinel) {
			return e
		}
	}
	return nil
}

// FieldErrors returns every FieldError in the tree of err, depth first.
func FieldErrors(err error) []*job.FieldError {
	if f, ok := err.(*job.FieldError); ok {
		return []*job.FieldError{f}
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return FieldErrors(u.Unwrap())
	case interface{ Unwrap() []error }:
		var out []*job.FieldError
		for _, e := range u.Unwrap() {
			out = append(out, FieldErrors(e)...)
		}
		return out
	}
	return nil
}

// Err is NewProblem walked backwards: an error that errors.Is the sentinel the
// server meant, and errors.As a *job.FieldError if it named a field. testdata/errors.json
// has what this client and the Python client make of answers.
func (p ProblemDetails) Err() error {
	for _, row := range problems {
		if p.Type == problemBase+row.kind {
			return &remoteError{sentinel: row.err, problem: p}
		}
	}
	return &remoteError{sentinel: byStatus(p.Status), problem: p}
}

// byStatus is what an answer means whose kind is not known: another program's, or of a newer server.
func byStatus(status int) error {
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		return job.ErrInvalid // the first row of 422 is about keys
	}
	for _, row := range problems {
		if row.status == status {
			return row.err
		}
	}
	return errInternal
}

// remoteError is an error that a server reported.
type remoteError struct {
	sentinel error
	problem  ProblemDetails
}

func (e *remoteError) Error() string {
	text := e.problem.Detail
	if text == "" {
		text = strings.ToLower(e.problem.Title)
	}
	if e.sentinel == errInternal && e.problem.Instance != "" {
		return fmt.Sprintf("server error %d: %s (trace %s)", e.problem.Status, text, e.problem.Instance)
	}
	return text
}

func (e *remoteError) Unwrap() []error {
	out := []error{e.sentinel}
	for _, f := range e.problem.Errors {
		out = append(out, &job.FieldError{Line: f.Line, Field: f.Field, Problem: f.Problem})
	}
	return out
}

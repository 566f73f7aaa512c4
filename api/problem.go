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

// FieldProblem is a problem of one field and, in a batch, one line.
type FieldProblem struct {
	Field   string `json:"field,omitempty"`
	Line    int    `json:"line,omitempty"`
	Problem string `json:"problem"`
}

// ErrUnauthorized is a request without a valid token.
var ErrUnauthorized = errors.New("unauthorized")

// ErrMethod is a request whose method the address does not support.
var ErrMethod = errors.New("method not allowed")

// ErrMismatch is a body that does not match its digest.
var ErrMismatch = errors.New("digest mismatch")

// ErrSlow is a body that stopped or arrived too slowly.
var ErrSlow = errors.New("request timed out")

// problems maps errors to HTTP. The first match wins in both directions. The last entry is the
// default.
var problems = []struct {
	err    error
	kind   string // last component of the problem's type
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
	{job.ErrErased, "erased", http.StatusGone, "Erased"},
	{job.ErrLost, "lost", http.StatusConflict, "Lost"},
	{job.ErrUnavailable, "unavailable", http.StatusServiceUnavailable, "Temporarily unavailable"},
	{context.DeadlineExceeded, "timeout", http.StatusServiceUnavailable, "Timed out"},
	{errInternal, "internal", http.StatusInternalServerError, "Internal error"},
}

// Sentinels returns the errors that HTTP responses carry. A client's error matches one of them with
// errors.Is, or is an internal failure of the server.
func Sentinels() (out []error) {
	for _, p := range problems[:len(problems)-1] {
		out = append(out, p.err)
	}
	return out
}

var errInternal = errors.New("internal error")

const problemBase = "https://assay.run/problems/"

// NewProblem converts err to a problem document. Errors outside the table are internal, and their
// text is only logged.
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

// detail returns the text of the outermost error that wraps sentinel directly. Outer layers only
// add context for the log.
func detail(err, sentinel error) string {
	var network net.Error
	switch {
	case sentinel == context.DeadlineExceeded:
		return "it took too long here; try again"
	case sentinel == job.ErrUnavailable && errors.As(err, &network): // its text has internal names and addresses
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

// matching returns the first error in errs that matches sentinel.
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

// Err is the inverse of NewProblem: its result matches the server's sentinel with errors.Is, and a
// *job.FieldError with errors.As if the problem has a field. testdata/errors.json lists the
// expected errors of this client and the Python client.
func (p ProblemDetails) Err() error {
	for _, row := range problems {
		if p.Type == problemBase+row.kind {
			return &remoteError{sentinel: row.err, problem: p}
		}
	}
	return &remoteError{sentinel: byStatus(p.Status), problem: p}
}

// byStatus returns the error for a response of unknown kind: from another program, or from a newer
// server.
func byStatus(status int) error {
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		return job.ErrInvalid // the first row with status 422 is about keys
	}
	for _, row := range problems {
		if row.status == status {
			return row.err
		}
	}
	return errInternal
}

// remoteError is an error from a server's response.
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

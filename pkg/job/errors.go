package job

import (
	"errors"
	"fmt"
)

// The errors that mean something to a caller. Adapters translate into these at
// their edge; internal/httpapi maps them to HTTP in one table, and pkg/client
// walks the same table backwards.
var (
	ErrInvalid     = errors.New("invalid")                 // the request is wrong; saying it again will not help
	ErrNotFound    = errors.New("not found")               // no such job, batch, artifact, …
	ErrGone        = errors.New("gone")                    // it was there, and is not kept any more
	ErrConflict    = errors.New("conflict")                // not in the state that it is in: it has ended, it is not done, it is there already
	ErrStale       = errors.New("stale")                   // somebody else has changed it since it was read
	ErrKeyUsed     = errors.New("idempotency key used")    // for a request with another body
	ErrLost        = errors.New("lease lost")              // a newer attempt or a terminal state won
	ErrUnavailable = errors.New("temporarily unavailable") // a dependency is down; nothing was written, or retry with the same key
	ErrTooLarge    = errors.New("too large")               // a body, file or artifact above its limit
	ErrTooMany     = errors.New("too many")                // the tenant has as much of something as it may; later, or after giving some back
	ErrRefused     = errors.New("refused")                 // above a ceiling, a quota, or not permitted
)

// FieldError is bad input that can be pinned to one field.
type FieldError struct {
	Line    int    // 1-based line of a batch file, 0 if there is none
	Field   string // path of the field, such as policy.memory
	Problem string // what is wrong with it, and what to do
}

func (e *FieldError) Error() string {
	switch {
	case e.Line > 0 && e.Field != "":
		return fmt.Sprintf("line %d: %s: %s", e.Line, e.Field, e.Problem)
	case e.Line > 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
	case e.Field != "":
		return e.Field + ": " + e.Problem
	}
	return e.Problem
}

// Unwrap makes every FieldError an ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// Invalid returns a FieldError; problem is a fmt format for args.
func Invalid(field, problem string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(problem, args...)}
}

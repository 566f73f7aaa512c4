package job

import (
	"errors"
	"fmt"
)

// The errors that callers can match. Adapters translate their own errors into these. One table in
// internal/dispatcher/httpapi maps them to HTTP; pkg/client reads it in reverse.
var (
	ErrInvalid  = errors.New("invalid")              // the request is wrong; a retry does not help
	ErrNotFound = errors.New("not found")            // no such job, batch, artifact, …
	ErrGone     = errors.New("gone")                 // it existed, but its data was deleted
	ErrErased   = errors.New("erased")               // the job or batch of the idempotency key was erased
	ErrConflict = errors.New("conflict")             // wrong state: it has ended, is not done, or exists already
	ErrStale    = errors.New("stale")                // changed by another writer since it was read
	ErrKeyUsed  = errors.New("idempotency key used") // for a request with a different body
	ErrLost     = errors.New("lease lost")           // a newer attempt or a terminal state won
	// a dependency is down; nothing was written, or the client can retry with the same key
	ErrUnavailable = errors.New("temporarily unavailable")
	ErrTooLarge    = errors.New("too large") // a body, file or artifact above its limit
	ErrTooMany     = errors.New("too many")  // the tenant reached a limit; retry later or release something
	ErrRefused     = errors.New("refused")   // above a ceiling, a quota, or not permitted
)

// FieldError is bad input in one field.
type FieldError struct {
	Line    int    // 1-based line of a batch file, 0 if there is none
	Field   string // path of the field, such as policy.memory
	Problem string // the problem and its remedy
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

package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// ErrLeaving is the cause of calls that end because the server stops. The jobs that they wait for
// continue.
var ErrLeaving = errors.New("this server is shutting down")

// advice tells an agent how to handle each kind of error. The first match counts.
var advice = []struct {
	is   error
	then string
}{
	{api.ErrUnauthorized, "No call can change that: this server needs a valid token (ASSAY_TOKEN, or the Authorization header) from its administrator."},
	{job.ErrTooLarge, "Send less: read large inputs in the program itself, or divide the work."},
	{job.ErrRefused, "Ask for less, or name another policy: limits of this tenant do not allow it."},
	{job.ErrTooMany, "Wait a little and call again; close sessions that are not needed any more."},
	{job.ErrInvalid, "Correct that argument and call again."},
	{job.ErrGone, "It is not kept any more: run the program again."},
	{job.ErrErased, "It was erased: call again with another idempotency key to run it anew."},
	{job.ErrNotFound, "Check the id and the path. A session that has ended is gone with its variables: create another one."},
	{job.ErrConflict, "Follow the message, or create another session."},
	{job.ErrLost, "Create another session or run the program again."},
	{job.ErrUnavailable, "The fleet is at fault, not the program: call again in a minute."},
}

// adviceError adds advice to an error.
type adviceError struct {
	error
	then string
}

func (e *adviceError) Error() string { return e.error.Error() + "\n" + e.then }
func (e *adviceError) Unwrap() error { return e.error }

// advised returns err with advice for the agent.
func advised(err error) error {
	var done *adviceError
	if errors.As(err, &done) {
		return err
	}
	for _, a := range advice {
		if errors.Is(err, a.is) {
			return &adviceError{err, a.then}
		}
	}
	return err
}

// parting limits the time to end work after its caller has left.
const parting = 5 * time.Second

// afterwards returns a context for the cleanup of a call whose ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), parting)
}

// left is the result of a call that had to leave a job alone.
func left(id job.ID) error {
	return &adviceError{fmt.Errorf("%w; job %s continues", ErrLeaving, id),
		fmt.Sprintf("Call get_result with job_id %s.", id)}
}

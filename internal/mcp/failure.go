package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// ErrLeaving is the cause of the end of calls that a server has no time for any more. The jobs
// that they wait for go on.
var ErrLeaving = errors.New("this server is about to end")

// advice is what an agent can do about an error, by what it is. The first that applies counts.
var advice = []struct {
	is   error
	then string
}{
	{api.ErrUnauthorized, "No call can change that: whoever set this server up has to give it a valid token (ASSAY_TOKEN, or the Authorization header)."},
	{job.ErrTooLarge, "Send less: read large inputs in the program itself, or divide the work."},
	{job.ErrRefused, "Ask for less, or name another policy: limits of this tenant do not allow it."},
	{job.ErrTooMany, "Wait a little and call again; close sessions that are not needed any more."},
	{job.ErrInvalid, "Correct that argument and call again."},
	{job.ErrGone, "It is not kept any more: run the program again."},
	{job.ErrNotFound, "Check the id and the path. A session that has ended is gone with its variables: create another one."},
	{job.ErrConflict, "Do what the message says, or create another session."},
	{job.ErrLost, "Create another session or run the program again."},
	{job.ErrUnavailable, "The fleet is at fault, not the program: call again in a minute."},
}

// adviceError adds what can be done to an error.
type adviceError struct {
	error
	then string
}

func (e *adviceError) Error() string { return e.error.Error() + "\n" + e.then }
func (e *adviceError) Unwrap() error { return e.error }

// advised returns err with what an agent can do about it.
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

// parting is how long what nobody waits for any more may take to be ended.
const parting = 5 * time.Second

// afterwards returns a context for what is to be done about a call that ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), parting)
}

// left is what a call returns that had to leave a job alone.
func left(id job.ID) error {
	return &adviceError{fmt.Errorf("%w, and job %s goes on", ErrLeaving, id),
		fmt.Sprintf("Call get_result with job_id %s.", id)}
}

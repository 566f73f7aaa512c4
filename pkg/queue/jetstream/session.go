package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// During a long call the dispatcher regularly checks that the worker still holds the session. After
// this many missing responses the worker counts as lost.
const (
	sessionPing    = 2 * time.Second
	sessionSilence = 3
)

var (
	_ control.SessionCaller = (*Queue)(nil)
	_ control.SessionServer = (*Queue)(nil)
)

// CallSession implements control.SessionCaller.
func (q *Queue) CallSession(ctx context.Context, worker string, c control.SessionCall) (control.SessionReply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.Op != control.SessionOpen && c.Op != control.SessionPing && c.Op != control.SessionTail {
		go q.watchWorker(ctx, cancel, worker, c.Session)
	}
	reply, err := q.callSession(ctx, worker, c)
	if err != nil && errors.Is(context.Cause(ctx), job.ErrLost) {
		err = context.Cause(ctx)
	}
	return reply, err
}

func (q *Queue) callSession(ctx context.Context, worker string, c control.SessionCall) (reply control.SessionReply, err error) {
	body, err := control.Encode(c)
	if err != nil {
		return reply, fmt.Errorf("%s: %w: %w", c.Op, job.ErrInvalid, err)
	}
	answer, err := q.ask(ctx, worker, kindSession, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return reply, fmt.Errorf("%w: worker %s is no longer connected", job.ErrLost, worker)
	case err != nil:
		return reply, err
	}
	if err := control.Decode(answer, &reply); err != nil {
		return reply, unavailable("session", fmt.Errorf("reply: %w", err))
	}
	return reply, nil
}

// watchWorker cancels ctx when the worker stops responding, so that no call hangs on a dead worker.
func (q *Queue) watchWorker(ctx context.Context, lost context.CancelCauseFunc, worker string, id job.ID) {
	tick := time.NewTicker(sessionPing)
	defer tick.Stop()
	for silent := 0; silent < sessionSilence; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		once, cancel := context.WithTimeout(ctx, sessionPing)
		_, err := q.callSession(once, worker, control.SessionCall{Op: control.SessionPing, Session: id})
		cancel()
		switch {
		case err == nil:
			silent = 0
		case errors.Is(err, job.ErrLost), errors.Is(err, job.ErrNotFound):
			silent = sessionSilence
		default:
			silent++
		}
	}
	lost(fmt.Errorf("%w: worker %s no longer responds", job.ErrLost, worker))
}

// ServeSessions implements control.SessionServer.
func (q *Queue) ServeSessions(ctx context.Context, worker string, h func(context.Context, control.SessionCall) (control.SessionReply, error)) error {
	return serveWorker(ctx, q, worker, kindSession, h) // no time limit: an execution has its own
}

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// recorded creates a session and its record concurrently, and removes either one if the other
// fails. If the record may be rejected (first), it is written first, so that nothing is created for
// a session above the quota.
func (s *Service) recorded(ctx context.Context, tenant string, v *job.Session, first bool, record func(context.Context) error, open func() error) error {
	written := make(chan error, 1)
	// The client cannot cancel the statement: Postgres may run a canceled one after the record's deletion.
	go func() { written <- record(context.WithoutCancel(ctx)) }()
	if first {
		err := <-written
		if err != nil {
			return err
		}
		written <- nil
	}
	err := open()
	werr := <-written
	switch {
	case err != nil:
		if ferr := s.Store.ForgetSession(context.WithoutCancel(ctx), v.ID); ferr != nil {
			s.Log.WarnContext(ctx, "orphaned session record not deleted", "session", v.ID, "error", ferr)
		}
		if !isRefusal(err) {
			go s.abandon(ctx, tenant, v.Worker, v.ID)
		}
		return err
	case werr != nil:
		go s.abandon(ctx, tenant, v.Worker, v.ID)
		return fmt.Errorf("record session: %w", werr)
	}
	s.places.put(placeKey{tenant, v.ID}, placeOf(v))
	return nil
}

// isRefusal reports whether an error is the worker's statement that there is no session. After other
// errors, the worker may have created one.
func isRefusal(err error) bool {
	for _, refusal := range []error{job.ErrTooMany, job.ErrRefused, job.ErrInvalid, job.ErrConflict, job.ErrNotFound} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// abandonPause is the pause between two attempts to close a session.
const abandonPause = time.Second

// abandon closes a session that no client knows: its record failed, or the response to its creation
// was lost. A worker without the session may not have reached the request yet, so it is called once
// more. A disconnected worker has none. Without a response, abandon retries for callTime; then the
// session's idle timeout ends it.
func (s *Service) abandon(ctx context.Context, tenant, worker string, id job.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	for unknown := 0; ; {
		_, err := s.ask(ctx, worker, control.SessionCall{Op: control.SessionClose, Session: id, Tenant: tenant})
		if errors.Is(err, job.ErrNotFound) {
			unknown++
		}
		if err == nil || errors.Is(err, job.ErrLost) || unknown == 2 {
			return
		}
		select {
		case <-time.After(abandonPause):
		case <-ctx.Done():
			s.Log.WarnContext(ctx, "session not closed; its idle timeout will close it", "session", id, "worker", worker, "error", err)
			return
		}
	}
}

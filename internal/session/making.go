package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// recorded makes a session and its record side by side: neither waits for the
// other, and neither stays without the other. Only where the record may be refused
// (first) it is waited for: nothing is made for sessions that a tenant may not have.
func (s *Service) recorded(ctx context.Context, tenant string, v *job.Session, first bool, record, open func() error) error {
	written := make(chan error, 1)
	go func() { written <- record() }()
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
			s.Log.WarnContext(ctx, "record of a session that never was is left", "session", v.ID, "error", ferr)
		}
		if !said(err) {
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

// said reports whether an error is the word of the worker that there is no session. All
// else may be the loss of its word: it was asked, and may have made one.
func said(err error) bool {
	for _, refusal := range []error{job.ErrTooMany, job.ErrRefused, job.ErrInvalid, job.ErrConflict, job.ErrNotFound} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// abandonPause is between two tries to close a session.
const abandonPause = time.Second

// abandon closes a session that nobody has heard of: it could not be recorded, or the
// answer to its making got lost. A worker that does not have it may only not have come to
// it, and is asked once more; one that is gone has none. While none answers, callTime is
// what is tried for: then the session's idle timeout ends it.
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
			s.Log.WarnContext(ctx, "session left to its idle timeout", "session", id, "worker", worker, "error", err)
			return
		}
	}
}

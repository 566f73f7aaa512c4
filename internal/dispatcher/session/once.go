package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// claimLease is how long a key stays claimed for a dispatcher that stopped renewing it.
	claimLease = 15 * time.Second
	// firstLook and lastLook are the shortest and longest pauses between checks of another request.
	firstLook, lastLook = 10 * time.Millisecond, 500 * time.Millisecond
)

// OpenOnce is Open for all requests with the same key: one of them opens the session, and the
// others get its current state (again). Without a key it is Open.
func (s *Service) OpenOnce(ctx context.Context, tenant string, key store.Idempotency, spec job.SessionSpec) (v *job.Session, again bool, err error) {
	return s.sessionOnce(ctx, tenant, key, func(ctx context.Context, id job.ID) (*job.Session, error) { return s.open(ctx, tenant, id, spec) })
}

// ForkOnce is to Fork as OpenOnce is to Open.
func (s *Service) ForkOnce(ctx context.Context, tenant string, key store.Idempotency, id job.ID) (v *job.Session, again bool, err error) {
	return s.sessionOnce(ctx, tenant, key, func(ctx context.Context, as job.ID) (*job.Session, error) { return s.fork(ctx, tenant, id, as) })
}

func (s *Service) sessionOnce(
	ctx context.Context, tenant string, key store.Idempotency, open func(context.Context, job.ID) (*job.Session, error),
) (v *job.Session, again bool, err error) {
	id := job.NewID()
	if key.Key == "" {
		v, err = open(ctx, id)
		return v, false, err
	}
	mine, err := s.claimKey(ctx, tenant, key, id, func(c store.KeyClaim) (done bool, err error) {
		switch {
		case c.Settled:
			v, err = s.Store.Session(ctx, tenant, c.Made)
			return true, err
		case !c.Held:
			return false, s.discard(ctx, tenant, key.Key, c.Made)
		}
		return false, nil
	})
	if err != nil || !mine {
		return v, true, err
	}
	release := s.hold(ctx, tenant, key.Key, id)
	defer release()
	if v, err = open(ctx, id); err == nil {
		err = s.settle(ctx, tenant, key.Key, id, v)
	}
	if err != nil {
		s.free(ctx, tenant, key.Key, id)
		return nil, false, err
	}
	return v, false, nil
}

// settle stores an open session under a key. If this fails, no client can learn of the session, and
// it is closed.
func (s *Service) settle(ctx context.Context, tenant, key string, claimed job.ID, v *job.Session) error {
	still, err := s.Store.SettleKey(ctx, tenant, key, claimed, v.ID)
	if err == nil && !still {
		err = fmt.Errorf("%w: the making of the session took so long that its idempotency key was given to another request", job.ErrUnavailable)
	}
	if err == nil {
		return nil
	}
	s.places.drop(placeKey{tenant, v.ID})
	s.forget(ctx, tenant, v.Worker, v.ID)
	return fmt.Errorf("record the key of a session: %w", err)
}

// forget removes a session that no client knows.
func (s *Service) forget(ctx context.Context, tenant, worker string, id job.ID) {
	if err := s.Store.ForgetSession(context.WithoutCancel(ctx), id); err != nil {
		s.Log.WarnContext(ctx, "orphaned session record not deleted", "session", id, "error", err)
	}
	go s.abandon(ctx, tenant, worker, id)
}

// discard frees a key of a dispatcher that failed while it created a session, and the session if it
// exists, because no client knows it.
func (s *Service) discard(ctx context.Context, tenant, key string, made job.ID) error {
	if err := s.Store.FreeKey(ctx, tenant, key, made); err != nil {
		return fmt.Errorf("free an idempotency key: %w", err)
	}
	v, err := s.Store.Session(ctx, tenant, made)
	if errors.Is(err, job.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	s.forget(ctx, tenant, v.Worker, made)
	return nil
}

// ExecuteOnce is Execute for all requests with the same key: one of them executes, and the others
// wait and get its record (again). If the executing dispatcher is gone without a record, it is
// unknown whether the code ran: the error is job.ErrConflict, and it is not run again. Without a
// key it is Execute.
func (s *Service) ExecuteOnce(ctx context.Context, tenant string, key store.Idempotency, id job.ID, req api.ExecuteRequest) (raw json.RawMessage, again bool, err error) {
	if key.Key == "" {
		raw, err = s.Execute(ctx, tenant, id, req)
		return raw, false, err
	}
	as := job.NewID()
	mine, err := s.claimKey(ctx, tenant, key, as, func(c store.KeyClaim) (done bool, err error) {
		e, err := s.Store.Execution(ctx, tenant, id, c.Made)
		switch raw = e.Result; {
		case !errors.Is(err, job.ErrNotFound):
			return true, err
		case !c.Held:
			return true, fmt.Errorf("%w: execution %s of this idempotency key began, its client disconnected, and no result is recorded: "+
				"it may have run, and is not repeated", job.ErrConflict, c.Made)
		}
		return false, nil
	})
	if err != nil || !mine {
		return raw, true, err
	}
	ctx = context.WithoutCancel(ctx) // a repeated request needs the result
	release := s.hold(ctx, tenant, key.Key, as)
	defer release()
	raw, begun, err := s.execute(ctx, tenant, id, as, req)
	if !begun {
		s.free(ctx, tenant, key.Key, as)
	}
	return raw, false, err
}

// claimKey claims a key for a new object, and reports whether it has the claim. While another request
// has it, it passes this claim to named repeatedly until named is done or fails.
func (s *Service) claimKey(ctx context.Context, tenant string, key store.Idempotency, made job.ID, named func(store.KeyClaim) (bool, error)) (bool, error) {
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		c, err := s.Store.ClaimKey(ctx, tenant, key, made, claimLease)
		if err != nil {
			return false, fmt.Errorf("claim an idempotency key: %w", err)
		}
		if c.Made == made {
			return true, nil
		}
		if done, err := named(c); done || err != nil {
			return false, err
		}
		if err := pause.For(ctx, wait); err != nil {
			return false, fmt.Errorf("wait for another request with this idempotency key: %w", err)
		}
	}
}

// hold renews a claimed key until it is released.
func (s *Service) hold(ctx context.Context, tenant, key string, made job.ID) (release func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		for pause.For(ctx, claimLease/3) == nil {
			if _, err := s.Store.HoldKey(ctx, tenant, key, made, claimLease); err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "idempotency key not renewed", "made", made, "error", err)
			}
		}
	}()
	return cancel
}

// free frees a key without a result. If this fails, its lease expires.
func (s *Service) free(ctx context.Context, tenant, key string, made job.ID) {
	if err := s.Store.FreeKey(context.WithoutCancel(ctx), tenant, key, made); err != nil {
		s.Log.WarnContext(ctx, "unused idempotency key not released; it will expire", "made", made, "error", err)
	}
}

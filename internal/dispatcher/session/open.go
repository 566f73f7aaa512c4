package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
)

// Open validates a tenant's session and opens it on a worker, or on another one if the first
// cannot.
func (s *Service) Open(ctx context.Context, tenant string, spec job.SessionSpec) (*job.Session, error) {
	return s.open(ctx, tenant, job.NewID(), spec)
}

// open is Open with a given id for the first worker. Other workers get other ids.
func (s *Service) open(ctx context.Context, tenant string, id job.ID, spec job.SessionSpec) (*job.Session, error) {
	spec, p, err := s.admit(ctx, tenant, spec)
	if err != nil {
		return nil, err
	}
	if s.Line == nil {
		return nil, errOff
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	ceiling, err := s.Admit.Ceiling(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if err := ceiling.CheckImage(spec.Image); err != nil {
		return nil, err
	}
	none := fmt.Errorf("%w: no worker is connected that could hold a session", job.ErrUnavailable)
	refusal := none
	for _, w := range s.workers(ctx, placement.Need{Pool: spec.Pool, Image: spec.Image}) {
		plan, err := p.PlanFor(w.Host, policy.UseOf(spec.Kind))
		if err != nil {
			refusal = err
			continue
		}
		v, err := s.openAt(ctx, w, tenant, id, spec, plan.Enforcement, ceiling.Sessions)
		id = job.NewID()
		switch {
		case errors.Is(err, job.ErrLost): // without its type, because no session was lost
			refusal = fmt.Errorf("%w: open a session: %v", job.ErrUnavailable, err)
			continue
		case errors.Is(err, job.ErrUnavailable):
			refusal = err
			continue
		case errors.Is(err, job.ErrInvalid) && !errors.Is(err, job.ErrTooMany): // such as more memory than this worker gives to sessions
			if !errors.Is(refusal, job.ErrUnavailable) || refusal == none {
				refusal = ofField(err.Error(), "policy")
			}
			continue
		case errors.As(err, new(*fullError)): // here, but perhaps not elsewhere
			refusal = ofSessions(err)
			continue
		case err != nil:
			return nil, fmt.Errorf("open a session: %w", err)
		}
		return v, nil
	}
	return nil, refusal
}

// workers returns workers that could hold a session. If there are none, it waits for a new one: the
// fleet is read once a second, and may lack a worker that a client has already seen.
func (s *Service) workers(ctx context.Context, need placement.Need) []fleet.Worker {
	for until := time.Now().Add(newcomerTime); ; {
		ws := s.Fleet.Ranked(need)
		if len(ws) > 0 || !time.Now().Before(until) || ctx.Err() != nil {
			return ws
		}
		_ = pause.For(ctx, newcomerTime/20)
	}
}

// admit validates a spec and returns it with its complete policy.
func (s *Service) admit(ctx context.Context, tenant string, spec job.SessionSpec) (job.SessionSpec, policy.Policy, error) {
	spec, err := spec.Validate()
	if err != nil {
		return spec, policy.Policy{}, err
	}
	if spec.Pool != "" {
		if err := s.Fleet.Pool(ctx, spec.Pool); err != nil {
			return spec, policy.Policy{}, err
		}
	}
	p, err := s.Admit.Resolve(ctx, tenant, spec.Policy)
	if err != nil {
		return spec, p, err
	}
	if err := p.Check(policy.UseOf(spec.Kind)); err != nil {
		return spec, p, err
	}
	if spec.Policy, err = json.Marshal(p); err != nil {
		return spec, p, fmt.Errorf("encode policy: %w", err)
	}
	return spec, p, nil
}

// openAt opens a session on one worker. most is the tenant's limit of sessions; 0: unlimited.
func (s *Service) openAt(
	ctx context.Context, w fleet.Worker, tenant string, id job.ID, spec job.SessionSpec, enforced []job.Enforcement, most int,
) (*job.Session, error) {
	v := &job.Session{ID: id, Tenant: tenant, Spec: spec, State: job.SessionLive, Worker: w.ID, CreatedAt: time.Now().UTC(), Enforcement: enforced}
	record := func(ctx context.Context) error { return s.Store.PutSession(ctx, tenant, *v, most) }
	err := s.recorded(ctx, tenant, v, most > 0, record, func() error {
		reply, err := s.ask(ctx, w.ID, control.SessionCall{Op: control.SessionOpen, Session: v.ID, Tenant: tenant, Spec: &spec})
		if errors.Is(err, job.ErrTooMany) {
			err = &fullError{err}
		}
		if err == nil && reply.Ended != nil {
			err = fmt.Errorf("%w: the session ended as it began: %s", job.ErrRefused, reply.Ended.Message)
		}
		return err
	})
	return v, err
}

// fullError is the error of a worker on which the tenant's sessions have their share.
type fullError struct{ error }

func (e *fullError) Unwrap() error { return e.error }

// ofSessions adds the field to a worker's error, because waiting does not help. The worker's text begins with the field.
func ofSessions(err error) error {
	if !errors.Is(err, job.ErrTooMany) || len(api.FieldErrors(err)) > 0 {
		return err
	}
	text := err.Error()
	if i := strings.LastIndex(text, job.ErrTooMany.Error()+": "); i >= 0 {
		text = text[i+len(job.ErrTooMany.Error()+": "):]
	}
	return fmt.Errorf("%w: %w", job.ErrTooMany, ofField(text, "sessions"))
}

// ofField parses a worker's text "FIELD: problem". Without a field in the text, the error has the usual one.
func ofField(text, usual string) error {
	field, problem, found := strings.Cut(text, ": ")
	if !found || strings.Contains(field, " ") {
		field, problem = usual, text
	}
	return job.Invalid(field, "%s", problem)
}

// Fork creates a copy of a tenant's session on the same worker.
func (s *Service) Fork(ctx context.Context, tenant string, id job.ID) (*job.Session, error) {
	return s.fork(ctx, tenant, id, job.NewID())
}

// fork is Fork with a given id.
func (s *Service) fork(ctx context.Context, tenant string, id, as job.ID) (*job.Session, error) {
	telemetry.Describe(ctx, telemetry.About{Session: id})
	at, err := s.place(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	ceiling, err := s.Admit.Ceiling(ctx, tenant)
	if err != nil {
		return nil, err
	}
	v := &job.Session{ID: as, Worker: at.worker}
	c := control.SessionCall{Op: control.SessionFork, Session: id, Tenant: tenant, Fork: v.ID}
	err = s.recorded(ctx, tenant, v, ceiling.Sessions > 0, func(ctx context.Context) error {
		copied, err := s.Store.ForkSession(ctx, tenant, id, c.Fork, ceiling.Sessions)
		if err == nil {
			*v = *copied
		}
		return err
	}, func() error {
		_, _, err := s.call(ctx, at, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fork session: %w", ofSessions(err))
	}
	return v, nil
}

package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Line connects to the workers that hold sessions; *jetstream.Queue is one.
type Line interface {
	control.SessionCaller
	WorkerEvents
}

// Store is the part of the store that a Service uses.
type Store interface {
	EndStore
	store.Claims
	PutSession(ctx context.Context, tenant string, s job.Session, most int) error
	ForkSession(ctx context.Context, tenant string, parent, id job.ID, most int) (*job.Session, error)
	ForgetSession(ctx context.Context, id job.ID) error
	PutExecute(ctx context.Context, e store.Executed) error
	Execution(ctx context.Context, tenant string, session, id job.ID) (store.Executed, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	Store Store
	Line  Line // nil: sessions are disabled here
	Fleet *fleet.Fleet
	Admit *admit.Admitter
	Log   *slog.Logger
}

// Service opens sessions and forwards calls to them. It is safe for concurrent use.
type Service struct {
	Config
	places places
	ends   *Ends
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{Config: c, ends: &Ends{Store: c.Store, Log: c.Log}}
}

const (
	// openTime limits the creation of a session.
	openTime = 60 * time.Second
	// newcomerTime is how long a session waits for a first worker.
	newcomerTime = 2 * time.Second
	// callTime limits calls without another limit.
	callTime = 45 * time.Second
	// exportTime limits an export, including the end of the current execution, and the end of a
	// session, which also exports.
	exportTime = 4 * time.Minute
	// slack is the time of an execution in addition to its wall: waiting for its turn, stopping, and
	// network latency.
	slack = 10 * time.Minute
)

// patience returns the time limit of a call.
func patience(c *control.SessionCall) time.Duration {
	switch c.Op {
	case control.SessionOpen, control.SessionFork:
		return openTime
	case control.SessionExport, control.SessionClose:
		return exportTime
	case control.SessionExecute, control.SessionShell:
		if c.Wall > 0 {
			return slack + c.Wall.D()
		}
		return slack + job.MaxIdle
	}
	return callTime
}

// Call calls the worker that holds a tenant's session; c names both. If the session has ended, Call
// records this and returns job.ErrConflict with end. job.ErrNotFound means that the tenant has no
// such session, or the session lacks the requested object.
func (s *Service) Call(ctx context.Context, c control.SessionCall) (reply control.SessionReply, end *control.SessionEnd, err error) {
	telemetry.Describe(ctx, telemetry.About{Session: c.Session})
	at, err := s.place(ctx, c.Tenant, c.Session)
	if err != nil {
		return reply, nil, err
	}
	return s.call(ctx, at, c)
}

// call is Call for a session on a known worker.
func (s *Service) call(ctx context.Context, at place, c control.SessionCall) (reply control.SessionReply, end *control.SessionEnd, err error) {
	asking, cancel := context.WithTimeout(ctx, patience(&c))
	defer cancel()
	reply, err = s.ask(asking, at.worker, c)
	if end, err = s.judge(asking, at, c, reply, err); end == nil {
		return reply, nil, err
	}
	s.places.drop(placeKey{c.Tenant, c.Session})
	if end, err = s.ends.record(ctx, at.worker, c.Tenant, *end); err != nil {
		return reply, end, err
	}
	return reply, end, hasEnded(c.Session, end.Outcome, end.Message)
}

// ask sends a call to a worker, with the current trace.
func (s *Service) ask(ctx context.Context, worker string, c control.SessionCall) (control.SessionReply, error) {
	c.TraceParent = telemetry.TraceParent(ctx)
	return s.Line.CallSession(ctx, worker, c)
}

// judge returns how a session has ended, if a response or its absence shows that it has.
func (s *Service) judge(ctx context.Context, at place, c control.SessionCall, reply control.SessionReply, err error) (*control.SessionEnd, error) {
	switch {
	case err == nil:
		return reply.Ended, nil
	case errors.Is(err, job.ErrLost):
		return lostEnd(c.Session, "its worker %s is no longer connected", at.worker), nil
	case errors.Is(err, job.ErrNotFound) && s.forgotten(ctx, at.worker, c):
		return lostEnd(c.Session, "worker %s no longer has it", at.worker), nil
	}
	return nil, err
}

func lostEnd(id job.ID, format, worker string) *control.SessionEnd {
	return &control.SessionEnd{Session: id, Outcome: job.Lost, Message: fmt.Sprintf(format, worker)}
}

// forgotten reports whether the session itself is missing, rather than an object in it.
func (s *Service) forgotten(ctx context.Context, worker string, c control.SessionCall) bool {
	_, err := s.ask(ctx, worker, control.SessionCall{Op: control.SessionPing, Session: c.Session, Tenant: c.Tenant})
	return errors.Is(err, job.ErrNotFound)
}

func hasEnded(id job.ID, o job.Outcome, message string) error {
	return fmt.Errorf("%w: session %s has ended (%s): %s", job.ErrConflict, id, o, message)
}

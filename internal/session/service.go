package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/admit"
	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Line leads to the workers that hold sessions; *jetstream.Queue is one.
type Line interface {
	control.SessionCaller
	Teller
}

// Config is what a Service stands on. Every field is needed unless it says otherwise.
type Config struct {
	Store store.Sessions
	Line  Line // nil: sessions are switched off here
	Fleet *fleet.Fleet
	Admit *admit.Admitter
	Log   *slog.Logger
}

// Service opens sessions and speaks with them. It is safe for concurrent use.
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
	// openTime bounds the making of a session.
	openTime = 60 * time.Second
	// newcomerTime is how long a session waits for a worker where there is none.
	newcomerTime = 2 * time.Second
	// callTime bounds what has no other bound.
	callTime = 45 * time.Second
	// exportTime bounds an export, with the end of what is executed before it, and the end
	// of a session, which exports too.
	exportTime = 4 * time.Minute
	// slack is what an execution may take on top of its wall: waiting for its turn,
	// giving way, and the way there and back.
	slack = 10 * time.Minute
)

// patience is how long the answer to a call is waited for.
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

// Call asks the worker that holds a session of the tenant's, both named in c. That the session
// has ended is recorded, and an error (job.ErrConflict); end is then how. job.ErrNotFound: the
// tenant has no such session, or it has not what is asked for.
func (s *Service) Call(ctx context.Context, c control.SessionCall) (reply control.SessionReply, end *control.SessionEnd, err error) {
	telemetry.Describe(ctx, telemetry.About{Session: c.Session})
	at, err := s.place(ctx, c.Tenant, c.Session)
	if err != nil {
		return reply, nil, err
	}
	return s.call(ctx, at, c)
}

// call is Call of a session that is known to be at a worker.
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

// ask sends a call to a worker, and tells it of which trace that is part.
func (s *Service) ask(ctx context.Context, worker string, c control.SessionCall) (control.SessionReply, error) {
	c.TraceParent = telemetry.TraceParent(ctx)
	return s.Line.CallSession(ctx, worker, c)
}

// judge returns how a session has ended, if an answer or the lack of one says that it has.
func (s *Service) judge(ctx context.Context, at place, c control.SessionCall, reply control.SessionReply, err error) (*control.SessionEnd, error) {
	switch {
	case err == nil:
		return reply.Ended, nil
	case errors.Is(err, job.ErrLost):
		return lost(c.Session, "its worker %s is gone", at.worker), nil
	case errors.Is(err, job.ErrNotFound) && s.forgotten(ctx, at.worker, c):
		return lost(c.Session, "worker %s does not have it any more", at.worker), nil
	}
	return nil, err
}

func lost(id job.ID, format, worker string) *control.SessionEnd {
	return &control.SessionEnd{Session: id, Outcome: job.Lost, Message: fmt.Sprintf(format, worker)}
}

// forgotten tells a session that is not there from something in it that is not.
func (s *Service) forgotten(ctx context.Context, worker string, c control.SessionCall) bool {
	_, err := s.ask(ctx, worker, control.SessionCall{Op: control.SessionPing, Session: c.Session, Tenant: c.Tenant})
	return errors.Is(err, job.ErrNotFound)
}

func hasEnded(id job.ID, o job.Outcome, message string) error {
	return fmt.Errorf("%w: session %s has ended (%s): %s", job.ErrConflict, id, o, message)
}

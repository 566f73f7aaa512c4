package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue"
)

// Sessions is the line to the workers that hold sessions; *jetstream.Queue is
// one.
type Sessions interface {
	queue.SessionCaller
	OnTold(ctx context.Context, topic string, f func(worker string, payload []byte)) error
}

// openTime bounds the making of a session, and callTime what is no execute.
const (
	openTime = 60 * time.Second
	callTime = 45 * time.Second
	// slack is what an execute may take on top of its wall: waiting for its turn,
	// giving way, and the way there and back.
	slack = 10 * time.Minute
)

// places remembers which worker holds a session: that never changes. Not every end is
// heard of here, so what is remembered is bounded: beyond it the record is read again.
type places struct {
	mu    sync.Mutex
	known map[placeKey]place
}

// maxPlaces is how many sessions are remembered.
const maxPlaces = 10_000

func (p *places) get(k placeKey) (at place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok = p.known[k]
	return at, ok
}

func (p *places) put(k placeKey, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = map[placeKey]place{}
	}
	p.known[k] = at
}

func (p *places) drop(k placeKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, k)
}

type placeKey struct {
	tenant string
	id     job.ID
}

type place struct {
	worker string
	kind   job.SessionKind
	lease  time.Duration
}

func (s *Server) createSession(w http.ResponseWriter, r *http.Request) error {
	if err := wantJSON(r); err != nil {
		return err
	}
	body, err := readBody(w, r, maxPolicyBody)
	if err != nil {
		return err
	}
	var spec job.SessionSpec
	if err := job.Decode(body, "", &spec); err != nil {
		return err
	}
	if spec, err = spec.Validate(); err != nil {
		return err
	}
	if spec.Pool != "" {
		if err := s.fleet.Pool(r.Context(), spec.Pool); err != nil {
			return err
		}
	}
	p, err := s.admit.Resolve(r.Context(), tenantOf(r), spec.Policy)
	if err != nil {
		return err
	}
	if err := p.Check(policy.UseOf(spec.Kind)); err != nil {
		return err
	}
	if spec.Policy, err = json.Marshal(p); err != nil {
		return fmt.Errorf("encode policy: %w", err)
	}
	v, err := s.openSession(r.Context(), tenantOf(r), spec, p)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+string(v.ID))
	return writeJSON(w, http.StatusCreated, v)
}

// openSession has a worker open a session, another one if the first cannot.
func (s *Server) openSession(ctx context.Context, tenant string, spec job.SessionSpec, p policy.Policy) (*job.Session, error) {
	if s.Sessions == nil {
		return nil, fmt.Errorf("%w: sessions are switched off here", job.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	refusal := fmt.Errorf("%w: no worker is connected that could hold a session", job.ErrUnavailable)
	ceiling, err := s.admit.Ceiling(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if err := ceiling.CheckImage(spec.Image); err != nil {
		return nil, err
	}
	for _, h := range s.fleet.Ranked(placement.Need{Pool: spec.Pool, Image: spec.Image}) {
		plan, err := p.PlanFor(h.Host, policy.UseOf(spec.Kind))
		if err != nil {
			refusal = err
			continue
		}
		v := &job.Session{ID: job.NewID(), Spec: spec, State: job.SessionLive, Worker: h.ID, CreatedAt: time.Now().UTC(), Enforcement: plan.Enforcement}
		record := func() error { return s.Store.PutSession(ctx, tenant, *v, ceiling.Sessions) }
		err = s.recorded(ctx, tenant, v, ceiling.Sessions > 0, record, func() error {
			reply, err := s.Sessions.CallSession(ctx, h.ID, queue.SessionCall{Op: queue.SessionOpen, Session: v.ID, Tenant: tenant, Spec: &spec})
			if errors.Is(err, job.ErrTooMany) {
				err = fmt.Errorf("%w: %w", errFull, err)
			}
			if err == nil && reply.Ended != nil {
				err = fmt.Errorf("%w: the session ended as it began: %s", job.ErrRefused, reply.Ended.Message)
			}
			return err
		})
		switch {
		case errors.Is(err, job.ErrLost), errors.Is(err, job.ErrUnavailable):
			refusal = fmt.Errorf("%w: open a session: %w", job.ErrUnavailable, err)
			continue
		case errors.Is(err, errFull): // here, and perhaps not elsewhere
			refusal = ofSessions(err)
			continue
		case err != nil:
			return nil, fmt.Errorf("open a session: %w", err)
		}
		return v, nil
	}
	return nil, refusal
}

// errFull is the word of a worker on which the tenant's sessions have their share.
var errFull = errors.New("open a session")

// ofSessions has the word of a worker name the field, since waiting does not help.
func ofSessions(err error) error {
	if errors.Is(err, job.ErrTooMany) && len(api.FieldErrors(err)) == 0 {
		return fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("sessions", "%v", err))
	}
	return err
}

// place returns where a live session of the tenant is.
func (s *Server) place(ctx context.Context, tenant string, id job.ID) (place, error) {
	if p, ok := s.places.get(placeKey{tenant, id}); ok {
		return p, nil
	}
	if s.Sessions == nil {
		return place{}, fmt.Errorf("%w: sessions are switched off here", job.ErrUnavailable)
	}
	v, err := s.Store.Session(ctx, tenant, id)
	if err != nil {
		return place{}, fmt.Errorf("read session: %w", err)
	}
	if v.State == job.SessionEnded {
		return place{}, hasEnded(id, v.Outcome, v.Message)
	}
	p := place{v.Worker, v.Spec.Kind, v.Spec.Lease.D()}
	s.places.put(placeKey{tenant, id}, p)
	return p, nil
}

func hasEnded(id job.ID, o job.Outcome, message string) error {
	return fmt.Errorf("%w: session %s has ended (%s): %s", job.ErrConflict, id, o, message)
}

// callSession asks the worker that holds a session. That the session has ended
// is recorded, and an error; end is then how.
func (s *Server) callSession(r *http.Request, c queue.SessionCall, wait time.Duration) (reply queue.SessionReply, end *queue.SessionEnd, err error) {
	if c.Session, err = idParam(r); err != nil {
		return reply, nil, err
	}
	c.Tenant = tenantOf(r)
	telemetry.Describe(r.Context(), telemetry.About{Session: c.Session})
	p, err := s.place(r.Context(), c.Tenant, c.Session)
	if err != nil {
		return reply, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	reply, err = s.Sessions.CallSession(ctx, p.worker, c)
	switch {
	case errors.Is(err, job.ErrLost):
		end = &queue.SessionEnd{Session: c.Session, Outcome: job.Lost, Message: fmt.Sprintf("its worker %s is gone", p.worker)}
	case errors.Is(err, job.ErrNotFound) && s.forgotten(ctx, p.worker, c):
		end = &queue.SessionEnd{Session: c.Session, Outcome: job.Lost, Message: fmt.Sprintf("worker %s does not have it any more", p.worker)}
	case err != nil:
		return reply, nil, err
	default:
		end = reply.Ended
	}
	if end == nil {
		return reply, nil, nil
	}
	s.places.drop(placeKey{c.Tenant, c.Session})
	if first, err := s.Store.EndSession(r.Context(), c.Session, p.worker, end.Outcome, end.Message); err != nil {
		return reply, end, fmt.Errorf("record the end of a session: %w", err)
	} else if !first { // the worker's own word was there before ours
		if v, err := s.Store.Session(r.Context(), c.Tenant, c.Session); err == nil {
			end = &queue.SessionEnd{Session: c.Session, Outcome: v.Outcome, Message: v.Message}
		}
	}
	return reply, end, hasEnded(c.Session, end.Outcome, end.Message)
}

// forgotten tells a session that is not there from something in it that is not.
func (s *Server) forgotten(ctx context.Context, worker string, c queue.SessionCall) bool {
	_, err := s.Sessions.CallSession(ctx, worker, queue.SessionCall{Op: queue.SessionPing, Session: c.Session, Tenant: c.Tenant})
	return errors.Is(err, job.ErrNotFound)
}

// forkSession makes a session that is a copy of another, where that one is.
func (s *Server) forkSession(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	tenant := tenantOf(r)
	p, err := s.place(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	ceiling, err := s.admit.Ceiling(r.Context(), tenant)
	if err != nil {
		return err
	}
	c := queue.SessionCall{Op: queue.SessionFork, Fork: job.NewID()}
	v := &job.Session{ID: c.Fork, Worker: p.worker}
	err = s.recorded(r.Context(), tenant, v, ceiling.Sessions > 0, func() error {
		copied, err := s.Store.ForkSession(r.Context(), tenant, id, c.Fork, ceiling.Sessions)
		if err == nil {
			*v = *copied
		}
		return err
	}, func() error {
		_, _, err := s.callSession(r, c, openTime)
		return err
	})
	if err != nil {
		return fmt.Errorf("fork session: %w", ofSessions(err))
	}
	w.Header().Set("Location", "/v1/sessions/"+string(v.ID))
	return writeJSON(w, http.StatusCreated, v)
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParam(r, "limit", 100, 1, maxPage)
	if err != nil {
		return err
	}
	var found []job.Session
	err = s.reads.do(r.Context(), tenantOf(r), func() (err error) {
		found, err = s.Store.ListSessions(r.Context(), tenantOf(r), r.URL.Query().Get("state") == "live", int(limit))
		return err
	})
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	if found == nil {
		found = []job.Session{}
	}
	return writeJSON(w, http.StatusOK, api.SessionList{Sessions: found})
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	v, err := s.Store.Session(r.Context(), tenantOf(r), id)
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	return writeJSON(w, http.StatusOK, v)
}

// closeSession ends a session; one that has ended stays as it is.
func (s *Server) closeSession(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionClose}, exportTime); err != nil && !errors.Is(err, job.ErrConflict) {
		return err
	}
	return s.getSession(w, r)
}

// traced tells workers of which trace a call is part.
type traced struct{ Sessions }

func (t traced) CallSession(ctx context.Context, worker string, c queue.SessionCall) (queue.SessionReply, error) {
	c.TraceParent = telemetry.TraceParent(ctx)
	return t.Sessions.CallSession(ctx, worker, c)
}

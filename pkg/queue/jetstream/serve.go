package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// Serve handles control requests until ctx ends, and then completes those in progress.
func (q *Queue) Serve(ctx context.Context, h control.Handler) error {
	s := &server{q: q, base: context.WithoutCancel(ctx)}
	kinds := map[string]nats.MsgHandler{
		kindClaim:     serve(s, h.HandleClaim),
		kindHeartbeat: serve(s, h.HandleHeartbeat),
		kindFinish:    serve(s, h.HandleFinish),
		kindRelease:   serve(s, h.HandleRelease),
		kindBuilt:     serve(s, h.HandleEnvironment),
	}
	for kind, handle := range kinds {
		if err := s.subscribe(requestPrefix+"*.*."+kind, handle); err != nil {
			s.stop()
			return unavailable("serve "+kind, err)
		}
	}
	<-ctx.Done()
	s.stop()
	return nil
}

type server struct {
	q       *Queue
	base    context.Context
	subs    []subscription
	drained sync.WaitGroup // of the subscriptions
	running sync.WaitGroup // of the requests
}

type subscription struct {
	*nats.Subscription
	drained func() // may be called twice
}

func (s *server) subscribe(subject string, handle nats.MsgHandler) error {
	sub, err := s.q.nc.QueueSubscribe(subject, serverGroup, handle)
	if err != nil {
		return err
	}
	s.drained.Add(1)
	done := sync.OnceFunc(s.drained.Done)
	sub.SetClosedHandler(func(string) { done() })
	s.subs = append(s.subs, subscription{sub, done})
	return nil
}

// stop ends the subscriptions and waits for requests in progress.
func (s *server) stop() {
	for _, sub := range s.subs {
		if err := sub.Drain(); err != nil {
			sub.drained() // the connection is closed
		}
	}
	s.drained.Wait()
	s.running.Wait()
}

// serve returns a NATS callback for one of the handler's methods. Callbacks must not block, so each
// request has a goroutine.
func serve[Request, Reply any](s *server, f func(context.Context, Request) (Reply, error)) nats.MsgHandler {
	return func(m *nats.Msg) {
		s.running.Go(func() {
			ctx, cancel := context.WithTimeout(s.base, s.q.patience(m))
			defer cancel()
			_, worker, err := speaker(m.Subject)
			if err != nil || !s.q.answerable(worker)(m.Reply) {
				s.q.log.WarnContext(ctx, "invalid control request dropped", "subject", m.Subject, "reply", m.Reply)
				return
			}
			if err := answerWorker(ctx, s, m, worker, f); err != nil {
				s.respondError(ctx, m, err)
			}
		})
	}
}

const (
	// patienceHeader is how long the sender of a request waits for the response, in milliseconds.
	// Without it the default applies.
	patienceHeader = "Assay-Patience"
	maxPatience    = 2 * time.Minute
	// framesRoom limits the bytes of frames that a dispatcher receives at once. A frame beyond it
	// waits for room until its sender's timeout, and its chunks are not requested before.
	framesRoom = 96 << 20
	// messagesRoom limits the bytes of unframed messages separately. A message beyond it has already
	// arrived, so it is rejected and sent again.
	messagesRoom = 64 << 20
	// smallRequest is the size up to which requests are always accepted: heartbeats, claims.
	smallRequest = 256 << 10
)

// patience returns the time limit of a request: the sender's timeout within bounds. Larger requests
// get more time.
func (q *Queue) patience(m *nats.Msg) time.Duration {
	said, err := strconv.ParseInt(m.Header.Get(patienceHeader), 10, 32)
	if err != nil {
		return q.cfg.Timeout
	}
	return max(q.cfg.Timeout, min(time.Duration(said)*time.Millisecond, maxPatience))
}

// take reads the body of a worker's request. The caller calls done after the response to free the
// room.
func (q *Queue) take(ctx context.Context, m *nats.Msg, worker string) (body []byte, done func(), err error) {
	size, rest, err := sizeOf(m, inboxOf(worker), control.MaxRequest)
	if err != nil {
		return nil, nil, err
	}
	if rest == "" && size <= smallRequest {
		return m.Data, func() {}, nil
	}
	if rest == "" {
		if !q.messages.TryAcquire(int64(size)) {
			return nil, nil, fmt.Errorf("%w: no room for a request of %d bytes", job.ErrUnavailable, size)
		}
		return m.Data, func() { q.messages.Release(int64(size)) }, nil
	}
	done = func() { q.frames.Release(int64(size)) }
	if err := q.frames.Acquire(ctx, int64(size)); err != nil {
		return nil, nil, unavailable("wait for room for a large request", err)
	}
	if body, err = readFrame(ctx, q.desk.asking(worker), m, inboxOf(worker), control.MaxRequest); err != nil {
		done()
		return nil, nil, err
	}
	return body, done, nil
}

// answerWorker handles a request of a worker and seals the response to it.
func answerWorker[Request, Reply any](ctx context.Context, s *server, m *nats.Msg, worker string, f func(context.Context, Request) (Reply, error)) error {
	key, err := s.q.seals.Note(worker, m.Header.Get(keyHeader))
	if err != nil {
		return err
	}
	body, done, err := s.q.take(ctx, m, worker)
	if err != nil {
		return err
	}
	defer done()
	reply, err := answer(ctx, m.Subject, body, func(ctx context.Context, r Request) (reply Reply, err error) {
		if err := s.q.identify(&r, m.Subject); err != nil {
			return reply, err
		}
		return f(ctx, r)
	})
	if err == nil {
		reply, err = s.q.own.Seal(key, reply)
	}
	if err != nil {
		return err
	}
	return s.respond(m, reply, restPrefix+token(worker), s.q.answerable(worker))
}

// serveWorker handles requests to one worker, each in its own goroutine, until ctx ends. It returns
// after the server has the subscription.
func serveWorker[Request, Reply any](ctx context.Context, q *Queue, worker, kind string, f func(context.Context, Request) (Reply, error)) error {
	if err := q.offerKey(ctx, worker); err != nil {
		return err
	}
	s := &server{q: q, base: context.WithoutCancel(ctx)}
	return q.listenFor(ctx, toWorker(worker, kind), func(m *nats.Msg) {
		go func() {
			body, err := readFrame(s.base, q.nc.RequestMsgWithContext, m, restPrefix+token(worker), maxAnswer)
			if err == nil {
				body, err = q.own.Open(body)
			}
			if err == nil {
				body, err = answer(s.base, m.Subject, body, f)
			}
			if err == nil {
				err = s.respond(m, body, inboxOf(worker), anywhere)
			}
			if err != nil {
				s.respondError(ctx, m, err)
			}
		}()
	})
}

// offerKey publishes the worker's public key to dispatchers while the connection lives.
func (q *Queue) offerKey(ctx context.Context, worker string) error {
	if _, offered := q.offered.LoadOrStore(worker, true); offered {
		return nil
	}
	return q.listenFor(context.WithoutCancel(ctx), toWorker(worker, kindKey), func(m *nats.Msg) {
		_ = m.Respond([]byte(q.own.Public)) // after a failure the requester times out
	})
}

func answer[Request, Reply any](ctx context.Context, subject string, body []byte, f func(context.Context, Request) (Reply, error)) ([]byte, error) {
	var req Request
	if err := control.Decode(body, &req); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", job.ErrInvalid, subject, err)
	}
	reply, err := f(ctx, req)
	if err != nil {
		return nil, err
	}
	return control.Encode(reply)
}

func (s *server) respond(m *nats.Msg, body []byte, below string, may func(string) bool) error {
	reply := &nats.Msg{}
	f, err := newFrame(s.q.nc, reply, body, below, may)
	if err != nil {
		return err
	}
	if err := m.RespondMsg(reply); err != nil {
		f.close()
		return err
	}
	return nil // the frame closes itself after it was read
}

func (s *server) respondError(ctx context.Context, m *nats.Msg, err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		s.q.log.WarnContext(ctx, "control request failed", "subject", m.Subject, "error", err)
	}
	reply := &nats.Msg{Data: []byte(err.Error()), Header: nats.Header{errorHeader: {errorCode(err)}}}
	if err := m.RespondMsg(reply); err != nil {
		s.q.log.WarnContext(ctx, "control request not answered", "subject", m.Subject, "error", err)
	}
}

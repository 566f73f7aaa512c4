package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// The kinds of requests from workers: the component of the subject after the worker.
const (
	kindClaim     = "claim"
	kindHeartbeat = "heartbeat"
	kindFinish    = "finish"
	kindRelease   = "release"
	kindBuilt     = "environment"
	kindPull      = "pull" // requests deliveries
	kindAck       = "ack"  // acknowledges deliveries; no response
	kindTell      = "tell" // no response
)

// Claim requests leases.
func (q *Queue) Claim(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
	return request[control.ClaimReply](ctx, q, r.Worker, kindClaim, r)
}

// Heartbeat renews leases.
func (q *Queue) Heartbeat(ctx context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	return request[control.HeartbeatReply](ctx, q, r.Worker.ID, kindHeartbeat, r)
}

// Finish records results.
func (q *Queue) Finish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	return request[control.FinishReply](ctx, q, r.Worker, kindFinish, r)
}

// Release returns attempts.
func (q *Queue) Release(ctx context.Context, r control.ReleaseRequest) (control.ReleaseReply, error) {
	return request[control.ReleaseReply](ctx, q, r.Worker, kindRelease, r)
}

// Environment requests or reports an environment.
func (q *Queue) Environment(ctx context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error) {
	return request[control.EnvironmentReply](ctx, q, r.Worker, kindBuilt, r)
}

// request returns the subject of a worker's request. A connection without an identity may use any
// name.
func (q *Queue) request(worker, kind string) string {
	pool := ""
	if q.cfg.Worker != nil {
		pool = q.cfg.Worker.Pool
	}
	return requestPrefix + token(pool) + "." + token(worker) + "." + kind
}

// request sends a request to any dispatcher.
func request[Reply any](ctx context.Context, q *Queue, worker, kind string, req any) (reply Reply, err error) {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	body, err := control.Encode(req)
	if err != nil {
		return reply, fmt.Errorf("%s: %w: %w", kind, job.ErrInvalid, err)
	}
	m := &nats.Msg{Subject: q.request(worker, kind), Header: nats.Header{keyHeader: {q.own.Public}}}
	if until, ok := ctx.Deadline(); ok {
		m.Header.Set(patienceHeader, strconv.FormatInt(time.Until(until).Milliseconds(), 10))
	}
	answer, err := q.exchange(ctx, q.nc.RequestMsgWithContext, m, body, inboxOf(worker), restPrefix+token(worker), anywhere)
	if err == nil {
		answer, err = q.own.Open(answer)
	}
	if err != nil {
		return reply, fmt.Errorf("%s: %w", kind, err)
	}
	if err := control.Decode(answer, &reply); err != nil {
		return reply, unavailable(kind, fmt.Errorf("reply: %w", err))
	}
	return reply, nil
}

// ask sends a request to a worker and returns its response. The request is sealed to the worker.
func (q *Queue) ask(ctx context.Context, worker, kind string, body []byte) ([]byte, error) {
	exchange := func(kind string, body []byte) ([]byte, error) {
		return q.exchange(ctx, q.desk.asking(worker), &nats.Msg{Subject: toWorker(worker, kind)}, body, restPrefix+token(worker), inboxOf(worker), q.answerable(worker))
	}
	for again := false; ; again = true {
		key, known := q.seals.Of(worker)
		if !known {
			text, err := exchange(kindKey, nil)
			if err != nil {
				return nil, err
			}
			if key, err = q.seals.Note(worker, string(text)); err != nil {
				return nil, unavailable("request the key of "+worker, err)
			}
		}
		secret, err := q.own.Seal(key, body)
		if err != nil {
			return nil, err
		}
		answer, err := exchange(kind, secret)
		if !errors.Is(err, errSealed) || again {
			return answer, err
		}
		q.seals.Forget(worker) // the worker has restarted since
	}
}

// anywhere accepts every reply subject of a worker, because the server restricts them.
func anywhere(string) bool { return true }

// exchange sends a request and returns the response. The part that does not fit in the message is
// served below mine, to permitted receivers. The rest of a large response is read from below
// theirs.
func (q *Queue) exchange(ctx context.Context, ask requester, m *nats.Msg, body []byte, mine, theirs string, may func(string) bool) ([]byte, error) {
	f, err := newFrame(q.nc, m, body, mine, may)
	if err != nil {
		return nil, unavailable("send", err)
	}
	defer f.close()
	reply, err := ask(ctx, m)
	if err != nil {
		return nil, unavailable("no reply", err)
	}
	if code := reply.Header.Get(errorHeader); code != "" {
		return nil, &remoteError{string(reply.Data), codeError(code)}
	}
	answer, err := readFrame(ctx, ask, reply, theirs, maxAnswer)
	if err != nil {
		return nil, unavailable("receive", err)
	}
	return answer, nil
}

// remoteError is the error of the other side. Its text has the sentinel's already, unless the other side knew a more exact one.
type remoteError struct {
	text     string
	sentinel error
}

func (e *remoteError) Error() string {
	if e.sentinel == job.ErrInvalid || strings.Contains(e.text, e.sentinel.Error()) { // what is invalid begins with its field
		return e.text
	}
	return fmt.Sprintf("%s: %v", e.text, e.sentinel)
}

func (e *remoteError) Unwrap() error { return e.sentinel }

// codes lists the errors that keep their identity on the wire. The first match wins.
var codes = []struct {
	code string
	err  error
}{
	{"too_many", job.ErrTooMany},
	{"invalid", job.ErrInvalid},
	{"not_found", job.ErrNotFound},
	{"conflict", job.ErrConflict},
	{"lost", job.ErrLost},
	{"too_large", job.ErrTooLarge},
	{"refused", job.ErrRefused},
	{"sealed", errSealed},
	{"unavailable", job.ErrUnavailable},
}

func codeError(code string) error {
	for _, c := range codes {
		if c.code == code {
			return c.err
		}
	}
	return job.ErrUnavailable
}

func errorCode(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "unavailable"
}

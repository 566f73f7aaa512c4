package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
)

// The kinds of control request: the last word of the subject.
const (
	kindClaim     = "claim"
	kindHeartbeat = "heartbeat"
	kindFinish    = "finish"
	kindRelease   = "release"
)

// Claim asks for leases.
func (q *Queue) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimReply, error) {
	return request[queue.ClaimReply](ctx, q, kindClaim, r)
}

// Heartbeat prolongs leases.
func (q *Queue) Heartbeat(ctx context.Context, r queue.HeartbeatRequest) (queue.HeartbeatReply, error) {
	return request[queue.HeartbeatReply](ctx, q, kindHeartbeat, r)
}

// Finish records results.
func (q *Queue) Finish(ctx context.Context, r queue.FinishRequest) (queue.FinishReply, error) {
	return request[queue.FinishReply](ctx, q, kindFinish, r)
}

// Release hands attempts back.
func (q *Queue) Release(ctx context.Context, r queue.ReleaseRequest) (queue.ReleaseReply, error) {
	return request[queue.ReleaseReply](ctx, q, kindRelease, r)
}

// request asks any dispatcher.
func request[Reply any](ctx context.Context, q *Queue, kind string, req any) (reply Reply, err error) {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	body, err := queue.Encode(req)
	if err != nil {
		return reply, fmt.Errorf("%s: %w: %w", kind, job.ErrInvalid, err)
	}
	answer, err := q.exchange(ctx, controlPrefix+kind, body)
	if err != nil {
		return reply, fmt.Errorf("%s: %w", kind, err)
	}
	if err := queue.Decode(answer, &reply); err != nil {
		return reply, unavailable(kind, fmt.Errorf("reply: %w", err))
	}
	return reply, nil
}

func (q *Queue) exchange(ctx context.Context, subject string, body []byte) ([]byte, error) {
	m := &nats.Msg{Subject: subject}
	f, err := newFrame(q.nc, m, body)
	if err != nil {
		return nil, unavailable("send", err)
	}
	defer f.close()
	reply, err := q.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, unavailable("no dispatcher answered", err)
	}
	if code := reply.Header.Get(errorHeader); code != "" {
		return nil, fmt.Errorf("%s: %w", reply.Data, codeError(code))
	}
	answer, err := readFrame(ctx, q.nc, reply)
	if err != nil {
		return nil, unavailable("receive", err)
	}
	return answer, nil
}

// codes are the errors that keep their meaning across the wire; the first that
// fits wins.
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

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// maxAtomic is the server's limit of messages in one atomic batch (ADR-50 and
	// server.streamDefaultMaxAtomicBatchSize).
	maxAtomic = 1000
	// minAtomic is the size at which a batch becomes cheaper than single messages. The server stages
	// each batch in its own store.
	minAtomic = 64
	// maxSingles limits concurrent single messages.
	maxSingles      = 256
	publishAttempts = 4
	// attemptTimeout leaves time for further attempts. A stream that is deleted during a publish
	// sends no response.
	attemptTimeout = 2 * time.Second

	traceHeader = "traceparent" // lower case as in the W3C standard

	// From ADR-50, atomic batch publishing.
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"

	// The server rejects a second message on a subject with this code and text. The code alone means
	// any storage failure, including a full disk.
	storeFailedCode = 10077
	subjectFullText = "maximum messages per subject exceeded"
	noMessageCode   = 10037

	messageSubject = "$JS.API.STREAM.MSG.GET." + streamName
)

// Publish makes all messages durable. It retries after an unknown outcome (a timeout, a lost
// connection).
func (q *Queue) Publish(ctx context.Context, ds []store.Dispatch) error {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	ds = distinct(ds)
	for len(ds) > 0 {
		n := min(len(ds), maxAtomic)
		if err := q.publishChunk(ctx, ds[:n]); err != nil {
			return unavailable("publish", err)
		}
		ds = ds[n:]
	}
	return nil
}

// distinct drops duplicate references, which would fail an atomic batch.
func distinct(ds []store.Dispatch) []store.Dispatch {
	seen := make(map[store.Ref]struct{}, len(ds))
	out := make([]store.Dispatch, 0, len(ds))
	for _, d := range ds {
		if _, ok := seen[d.Ref]; !ok {
			seen[d.Ref] = struct{}{}
			out = append(out, d)
		}
	}
	return out
}

func (q *Queue) publishChunk(ctx context.Context, ds []store.Dispatch) error {
	var err error
	for range publishAttempts {
		if err = q.publishOnce(ctx, ds); err == nil {
			q.silence.end()
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			if err := q.recreate(ctx); err != nil {
				return err
			}
		case errors.Is(err, context.DeadlineExceeded):
			if err := q.judge(ctx); err != nil {
				return err
			}
		}
	}
	return err
}

// publishOnce tries one atomic batch. If the server rejects it, most likely because a part is
// already queued, the messages are sent one by one.
func (q *Queue) publishOnce(ctx context.Context, ds []store.Dispatch) error {
	if len(ds) >= minAtomic {
		err := q.publishAtomic(ctx, ds)
		if refused := (*refusedError)(nil); !errors.As(err, &refused) {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxSingles)
	for _, d := range ds {
		g.Go(func() error {
			seq, err := q.publishRequest(ctx, message(d))
			if err == nil {
				q.tellPlaced(seq, []store.Dispatch{d})
			}
			if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.alreadyQueued() {
				return q.confirm(ctx, d)
			}
			return err
		})
	}
	return g.Wait()
}

// errNotStored means that a message was rejected as a duplicate of a message that is not in the
// stream.
var errNotStored = fmt.Errorf("not stored yet: %w", context.DeadlineExceeded)

// confirm checks that a message rejected as a duplicate is in the stream. A stream with replicas
// also rejects it while our earlier attempt waits for a majority, without which it is lost.
func (q *Queue) confirm(ctx context.Context, d store.Dispatch) error {
	if q.cfg.Replicas == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := json.Marshal(map[string]string{"last_by_subj": subject(d)})
	if err != nil {
		return err
	}
	reply, err := q.nc.RequestWithContext(ctx, messageSubject, request)
	if err != nil {
		return err
	}
	var got struct {
		Error *refusedError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &got); err != nil {
		return fmt.Errorf("message %q: %w", reply.Data, err)
	}
	if got.Error != nil && got.Error.Code == noMessageCode {
		return errNotStored
	}
	if got.Error != nil {
		return got.Error
	}
	return nil
}

func (q *Queue) publishAtomic(ctx context.Context, ds []store.Dispatch) error {
	batch := string(job.NewID())
	for i, d := range ds {
		m := message(d)
		m.Header[batchIDHeader] = []string{batch}
		m.Header[batchSeqHeader] = []string{strconv.Itoa(i + 1)}
		if i == len(ds)-1 {
			m.Header[batchCommitHeader] = []string{"1"}
			last, err := q.publishRequest(ctx, m)
			if err == nil {
				q.tellPlaced(last-uint64(i), ds) // they are stored consecutively
			}
			return err
		}
		if err := q.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

func message(d store.Dispatch) *nats.Msg {
	m := &nats.Msg{Subject: subject(d), Header: nats.Header{}}
	if d.TraceParent != "" {
		m.Header[traceHeader] = []string{d.TraceParent}
	}
	return m
}

// publishRequest publishes and waits for the stream's response: the message's number, or a
// *refusedError.
func (q *Queue) publishRequest(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	reply, err := q.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Stream string        `json:"stream"`
		Seq    uint64        `json:"seq"`
		Error  *refusedError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("publish acknowledgement %q: %w", reply.Data, err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Stream != streamName {
		return 0, fmt.Errorf("subject %s belongs to stream %q", m.Subject, ack.Stream)
	}
	return ack.Seq, nil
}

// refusedError is the stream's rejection of a message or batch.
type refusedError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("refused by the stream: %s (%d)", e.Description, e.Code)
}

func (e *refusedError) alreadyQueued() bool {
	return e.Code == storeFailedCode && e.Description == subjectFullText
}

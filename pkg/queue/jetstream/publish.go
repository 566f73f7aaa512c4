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
	// maxAtomic is the most messages that the server takes in one atomic batch
	// (ADR-50 and server.streamDefaultMaxAtomicBatchSize).
	maxAtomic = 1000
	// minAtomic is where a batch becomes cheaper than single messages: the
	// server stages each batch in a store of its own.
	minAtomic = 64
	// maxSingles bounds the single messages on their way at once.
	maxSingles      = 256
	publishAttempts = 4
	// attemptTimeout leaves time for the other attempts: a stream that is deleted
	// under a publish answers nothing at all.
	attemptTimeout = 2 * time.Second

	traceHeader = "traceparent" // lower case, as W3C writes it

	// Of ADR-50, atomic batch publishing.
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"

	// The server refuses a second message on a subject with this code and text.
	// The code alone means any failure to store, a full disk among them.
	storeFailedCode = 10077
	subjectFullText = "maximum messages per subject exceeded"
	noMessageCode   = 10037

	messageSubject = "$JS.API.STREAM.MSG.GET." + streamName
)

// Publish makes all messages durable. What it cannot know (a timeout, a lost
// connection) it says again.
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

// distinct drops repeated references, which an atomic batch would fail on.
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

// publishOnce tries one atomic batch. If the server refuses it as a whole, most
// likely because some of it is already queued, the messages go one by one.
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

// errNotStored says that a message was refused for one that is not in the stream.
var errNotStored = fmt.Errorf("it is not stored yet: %w", context.DeadlineExceeded)

// confirm says whether what was refused as queued already is in the stream. One with
// replicas refuses it, too, while an earlier try of ours waits for a majority, without
// which it is lost.
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
				q.tellPlaced(last-uint64(i), ds) // they are stored one after the other
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

// publishRequest publishes and waits for the stream's answer, the number of the message,
// or a refusal, which is a *refusedError.
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

// refusedError is the stream's refusal of a message or batch.
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

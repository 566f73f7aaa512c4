package jetstream

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// silence records a stream that does not respond to publishes.
type silence struct {
	mu    sync.Mutex
	since time.Time // zero: it responded
	then  *jetstream.StreamInfo
}

// end records that the stream responded.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.then = time.Time{}, nil
}

// lasted returns how long the stream has stored nothing, given its current description. A message
// from any publisher ends the silence and starts a new one.
func (s *silence) lasted(info *jetstream.StreamInfo) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.then == nil || !info.Created.Equal(s.then.Created) || info.State.LastSeq != s.then.State.LastSeq {
		s.since, s.then = time.Now(), info
	}
	return time.Since(s.since)
}

// judge replaces the stream if it is dead. After one failed write (full disk, missing directory)
// the server rejects all later writes without a response until it restarts or the stream is
// recreated. A new stream loses the queue, which the reaper publishes again from the store.
//
// A stream is dead if it describes itself, but its last message has not changed for RemakeAfter
// although publishes were sent and not acknowledged. This takes minutes, because a disk may stall
// and recover. judge never replaces a stream with replicas: its silence is an election or a lost
// majority, after which it has its queue.
func (q *Queue) judge(ctx context.Context) error {
	if q.cfg.Replicas > 1 || q.cfg.RemakeAfter < 0 {
		return nil
	}
	info, err := q.streamInfo(ctx)
	if err != nil {
		q.silence.end() // no response at all: the server is unreachable
		return nil
	}
	lasted := q.silence.lasted(info)
	if lasted < q.cfg.RemakeAfter || info.Config.Replicas > 1 {
		return nil
	}
	q.silence.end()
	q.log.ErrorContext(ctx, "stream stores nothing; recreating it", "stream", streamName, "queued", info.State.Msgs, "silent", lasted)
	if err := q.js.DeleteStream(ctx, streamName); err != nil {
		return unavailable("delete the dead stream", err)
	}
	return q.recreate(ctx)
}

func (q *Queue) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	s, err := q.js.Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

package jetstream

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// silence is what is known of a stream that does not answer publishes.
type silence struct {
	mu    sync.Mutex
	since time.Time // zero: it answered
	then  *jetstream.StreamInfo
}

// end is for when the stream answered.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.then = time.Time{}, nil
}

// lasted says for how long the stream has stored nothing, given what it says of itself
// now. What it has stored meanwhile, by whomever, ends the silence and begins another.
func (s *silence) lasted(info *jetstream.StreamInfo) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.then == nil || !info.Created.Equal(s.then.Created) || info.State.LastSeq != s.then.State.LastSeq {
		s.since, s.then = time.Now(), info
	}
	return time.Since(s.since)
}

// judge replaces the stream if it is dead. After one failed write (a full disk, a
// directory that went away) the server refuses all later ones and answers none of
// them, until it restarts or the stream is made anew. Making it anew costs what
// was queued, which the reaper publishes again from the store.
//
// Dead is a stream that describes itself, and whose last message was the same for
// RemakeAfter although it was sent some and answered none. Minutes, since a disk may
// stall for so long and come back. A stream with replicas is never replaced: its silence
// is an election or a lost majority, and it has what was queued when that is over.
func (q *Queue) judge(ctx context.Context) error {
	if q.cfg.Replicas > 1 || q.cfg.RemakeAfter < 0 {
		return nil
	}
	info, err := q.streamInfo(ctx)
	if err != nil {
		q.silence.end() // nobody answers: then it is the server that is away
		return nil
	}
	lasted := q.silence.lasted(info)
	if lasted < q.cfg.RemakeAfter || info.Config.Replicas > 1 {
		return nil
	}
	q.silence.end()
	q.log.ErrorContext(ctx, "stream stores nothing, making it anew", "stream", streamName, "queued", info.State.Msgs, "silent", lasted)
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

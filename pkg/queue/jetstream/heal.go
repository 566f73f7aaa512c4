package jetstream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// deadAfter is for how long a stream must have stored nothing that it was sent.
const deadAfter = 3 * time.Second

// silence is what is known of a stream that does not answer publishes.
type silence struct {
	since time.Time // zero: it answered
	then  *jetstream.StreamInfo
}

// judge replaces the stream if it is dead. After one failed write (a full disk, a
// directory that went away) the server refuses all later ones and answers none of
// them, until it restarts or the stream is made anew. Making it anew costs what
// was queued, which the reaper publishes again from the store.
//
// Dead is a stream that describes itself, and whose last message was the same for
// deadAfter although it was sent some: one that is only slow goes on.
func (q *Queue) judge(ctx context.Context, s *silence) error {
	info, err := q.streamInfo(ctx)
	if err != nil {
		*s = silence{} // nobody answers: then it is the server that is away
		return nil
	}
	if s.then == nil || !info.Created.Equal(s.then.Created) || info.State.LastSeq != s.then.State.LastSeq {
		*s = silence{time.Now(), info}
		return nil
	}
	if time.Since(s.since) < deadAfter {
		return nil
	}
	*s = silence{}
	q.log.ErrorContext(ctx, "stream stores nothing, making it anew", "stream", streamName, "queued", info.State.Msgs)
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

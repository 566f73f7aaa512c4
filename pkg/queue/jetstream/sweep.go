package jetstream

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// Sweep implements queue.Publisher. An acknowledgement takes a message out of the
// stream; a server that cannot write at that moment (its disk is full) notes it
// in memory only, and after its restart has the message again, below what its
// consumer is done with.
func (q *Queue) Sweep(ctx context.Context) error {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	s, err := q.js.Stream(ctx, streamName)
	if err != nil {
		return unavailable("sweep", err)
	}
	state := s.CachedInfo().State
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		done := c.AckFloor.Stream // and everything below
		if state.Msgs == 0 || state.FirstSeq > done {
			continue
		}
		err := s.Purge(ctx, jetstream.WithPurgeSubject(c.Config.FilterSubject), jetstream.WithPurgeSequence(done+1))
		if err != nil {
			return unavailable("sweep", err)
		}
	}
	if err := list.Err(); err != nil {
		return unavailable("sweep", err)
	}
	return nil
}

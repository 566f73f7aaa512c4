package jetstream

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// Sweep implements queue.Publisher. An acknowledgement removes a message from the stream. A server
// that cannot write at this moment (its disk is full) records it in memory only. After a restart
// the message exists again, below the consumer's ack floor.
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
		done := c.AckFloor.Stream // and all below it
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

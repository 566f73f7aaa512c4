package fault

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// Publisher is the dispatchers' end of a queue that fails now and then.
type Publisher struct {
	queue.Publisher
	In *Injector
}

// Publish implements queue.Publisher.
func (p *Publisher) Publish(ctx context.Context, ds []store.Dispatch) error {
	return p.In.do("publish", func() error { return p.Publisher.Publish(ctx, ds) })
}

// Bus is the dispatchers' own line, on which assignments fail now and then.
type Bus struct {
	queue.Bus
	In *Injector
}

// Assign implements queue.Bus.
func (b *Bus) Assign(ctx context.Context, worker string, a queue.Assignment) error {
	return b.In.do("assign", func() error { return b.Bus.Assign(ctx, worker, a) })
}

// Control is a worker's line to the dispatchers that fails now and then.
type Control struct {
	queue.Control
	In *Injector
}

// Claim implements queue.Control.
func (c *Control) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimReply, error) {
	return get(c.In, "claim", func() (queue.ClaimReply, error) { return c.Control.Claim(ctx, r) })
}

// Heartbeat implements queue.Control.
func (c *Control) Heartbeat(ctx context.Context, r queue.HeartbeatRequest) (queue.HeartbeatReply, error) {
	return get(c.In, "heartbeat", func() (queue.HeartbeatReply, error) { return c.Control.Heartbeat(ctx, r) })
}

// Finish implements queue.Control.
func (c *Control) Finish(ctx context.Context, r queue.FinishRequest) (queue.FinishReply, error) {
	return get(c.In, "finish", func() (queue.FinishReply, error) { return c.Control.Finish(ctx, r) })
}

// Release implements queue.Control.
func (c *Control) Release(ctx context.Context, r queue.ReleaseRequest) (queue.ReleaseReply, error) {
	return get(c.In, "release", func() (queue.ReleaseReply, error) { return c.Control.Release(ctx, r) })
}

// Consumer is a worker's end of deliveries that fails now and then, and whose
// acknowledgements get lost.
type Consumer struct {
	queue.Consumer
	In *Injector
}

// Fetch implements queue.Consumer.
func (c *Consumer) Fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) (sent int, err error) {
	fetched := make(chan queue.Message)
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		for m := range fetched {
			out <- &message{m, c.In}
		}
	}()
	defer func() {
		close(fetched)
		<-passed
	}()
	err = c.In.do("fetch", func() (err error) {
		sent, err = c.Consumer.Fetch(ctx, n, wait, fetched)
		return err
	})
	return sent, err
}

type message struct {
	queue.Message
	in *Injector
}

func (m *message) Ack() error { return m.in.do("ack", m.Message.Ack) }

func (m *message) Nak(delay time.Duration) error {
	return m.in.do("nak", func() error { return m.Message.Nak(delay) })
}

func (m *message) InProgress() error { return m.in.do("in progress", m.Message.InProgress) }

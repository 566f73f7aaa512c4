package fault

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// Publisher is the dispatchers' side of a queue, with random failures.
type Publisher struct {
	queue.Publisher
	In *Injector
}

// Publish implements queue.Publisher.
func (p *Publisher) Publish(ctx context.Context, ds []store.Dispatch) error {
	return p.In.do("publish", func() error { return p.Publisher.Publish(ctx, ds) })
}

// Bus is the dispatchers' own line; assignments fail at random.
type Bus struct {
	control.Bus
	In *Injector
}

// Assign implements control.Bus.
func (b *Bus) Assign(ctx context.Context, worker string, a control.Assignment) error {
	return b.In.do("assign", func() error { return b.Bus.Assign(ctx, worker, a) })
}

// Client is a worker's line to the dispatchers, with random failures.
type Client struct {
	control.Client
	In *Injector
}

// Claim implements control.Client.
func (c *Client) Claim(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
	return get(c.In, "claim", func() (control.ClaimReply, error) { return c.Client.Claim(ctx, r) })
}

// Heartbeat implements control.Client.
func (c *Client) Heartbeat(ctx context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	return get(c.In, "heartbeat", func() (control.HeartbeatReply, error) { return c.Client.Heartbeat(ctx, r) })
}

// Finish implements control.Client.
func (c *Client) Finish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	return get(c.In, "finish", func() (control.FinishReply, error) { return c.Client.Finish(ctx, r) })
}

// Release implements control.Client.
func (c *Client) Release(ctx context.Context, r control.ReleaseRequest) (control.ReleaseReply, error) {
	return get(c.In, "release", func() (control.ReleaseReply, error) { return c.Client.Release(ctx, r) })
}

// Consumer is a worker's side of deliveries, with random failures and lost acknowledgements.
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

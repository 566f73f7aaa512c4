package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/queue"
)

const (
	pullSubject = "$JS.API.CONSUMER.MSG.NEXT." + streamName + "."

	// A long fetch asks for heartbeats, so that a request which the server has
	// forgotten is noticed before its time is over.
	heartbeat        = 5 * time.Second
	heartbeatMinWait = 2*heartbeat + time.Second
	missedHeartbeats = 2*heartbeat + time.Second
	statusRoom       = 64 // status messages that may come while out is blocked
	fetchGrace       = 2 * time.Second
	giveBackTimeout  = 2 * time.Second
)

// errNoConsumer says that the consumer or its stream is gone.
var errNoConsumer = errors.New("the consumer does not exist")

type consumer struct {
	q    *Queue
	pool string
	name atomic.Value // string
}

// Consumer returns the deliveries of a pool, whose consumer it makes, or has made.
func (q *Queue) Consumer(ctx context.Context, pool string) (queue.Consumer, error) {
	c := &consumer{q: q, pool: pool}
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *consumer) ensure(ctx context.Context) (err error) {
	name := c.q.consumerName(c.pool)
	if c.q.restricted() {
		name, err = c.q.borrow(ctx, c.pool)
	} else {
		err = c.q.ensureConsumer(ctx, c.pool)
	}
	if err == nil {
		c.name.Store(name)
	}
	return err
}

// Fetch sends one pull request. The client library's own Fetch drops messages
// that are on their way when its context ends, which then wait for the ack wait
// to pass; this one gives them back.
func (c *consumer) Fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) error {
	if n <= 0 || ctx.Err() != nil {
		return nil
	}
	end := time.Now().Add(wait)
	for left := wait; ; left = time.Until(end) {
		got, err := c.pull(ctx, n, max(left, 0), out)
		if !errors.Is(err, errNoConsumer) {
			return err
		}
		// As with a stream, what is being deleted must be gone first.
		if pause(ctx, recreatePause) != nil {
			return nil
		}
		if err := c.ensure(ctx); err != nil {
			return err
		}
		if n -= got; n == 0 || time.Until(end) <= 0 {
			return nil
		}
	}
}

func (c *consumer) pull(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) (got int, err error) {
	changed := c.q.connectionChange()
	in := make(chan *nats.Msg, n+statusRoom)
	inbox := c.q.nc.NewInbox()
	sub, err := c.q.nc.ChanSubscribe(inbox, in)
	if err != nil {
		return 0, unavailable("fetch", err)
	}
	p := &pull{c: c, in: in, out: out, want: n, beat: wait >= heartbeatMinWait}
	if err := p.request(inbox, wait); err != nil {
		_ = sub.Unsubscribe()
		return 0, unavailable("fetch", err)
	}
	if err = p.receive(ctx, wait, changed); p.served {
		_ = sub.Unsubscribe() // the server is through with it: nothing is on its way
		return p.got, err
	}
	p.giveBack(sub)
	return p.got, err
}

// pull is one request and what comes of it.
type pull struct {
	c         *consumer
	in        chan *nats.Msg
	out       chan<- queue.Message
	want, got int
	beat      bool
	served    bool
}

func (p *pull) request(inbox string, wait time.Duration) error {
	r := struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires,omitempty"`
		NoWait    bool          `json:"no_wait,omitempty"`
		Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	}{Batch: p.want, Expires: wait, NoWait: wait == 0}
	if p.beat {
		r.Heartbeat = heartbeat
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.c.q.nc.PublishRequest(pullSubject+p.c.name.Load().(string), inbox, body)
}

func (p *pull) receive(ctx context.Context, wait time.Duration, changed <-chan struct{}) error {
	silence := wait + fetchGrace
	if p.beat {
		silence = missedHeartbeats
	}
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for p.got < p.want {
		select {
		case m := <-p.in:
			if p.beat {
				timer.Reset(silence)
			}
			if done, err := p.handle(ctx, m); done || err != nil {
				p.served = done
				return err
			}
		case <-timer.C:
			return nil
		case <-changed: // the server has forgotten the request
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	p.served = true
	return nil
}

// handle passes a delivery on, or reads a status: done says that the server
// will send nothing more.
func (p *pull) handle(ctx context.Context, m *nats.Msg) (done bool, err error) {
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 {
		return pullStatus(status, m.Header.Get("Description"))
	}
	d, err := newDelivery(p.c.q.nc, m)
	if err != nil {
		// Nothing of ours; it would come back for ever.
		p.c.q.log.Error("delivery dropped", "subject", m.Subject, "error", err)
		p.got++
		return false, m.Respond(ackTerm)
	}
	select {
	case p.out <- d:
		p.got++
		return false, nil
	case <-ctx.Done():
		return false, d.Nak(0)
	}
}

func pullStatus(status, description string) (done bool, err error) {
	switch status {
	case "100": // heartbeat
		return false, nil
	case "404", "408": // nothing there, time is over
		return true, nil
	case "503": // no responders
		return true, errNoConsumer
	case "409":
		switch description {
		case "Consumer Deleted":
			return true, errNoConsumer
		case "Batch Completed", "Leadership Change", "Server Shutdown":
			return true, nil
		}
	}
	return true, unavailable("fetch", fmt.Errorf("status %s: %s", status, description))
}

// giveBack ends a pull that the server has not: it withdraws the subscription,
// waits until the server knows, and returns what came in the meantime.
func (p *pull) giveBack(sub *nats.Subscription) {
	_ = sub.Drain() // for a channel: no more interest, but what arrives is still passed on
	_ = p.c.q.nc.FlushTimeout(giveBackTimeout)
	for {
		select {
		case m := <-p.in:
			if m.Header.Get("Status") == "" {
				_ = m.Respond(ackNak) // if that fails the ack wait does it
			}
		default:
			return
		}
	}
}

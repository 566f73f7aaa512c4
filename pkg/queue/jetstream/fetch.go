package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
)

const (
	pullSubject = "$JS.API.CONSUMER.MSG.NEXT." + streamName + "."

	// A long fetch requests heartbeats, to detect before its end that the server has lost the
	// request.
	heartbeat        = 5 * time.Second
	heartbeatMinWait = 2*heartbeat + time.Second
	missedHeartbeats = 2*heartbeat + time.Second
	statusRoom       = 64 // status messages that may arrive while out is blocked
	fetchGrace       = 2 * time.Second
	stopTimeout      = 2 * time.Second
	// unanswered is how long a dispatcher may take to relay a pull.
	unanswered = 3 * time.Second
)

const (
	statusGoesOn = "100" // a heartbeat, or a relayed pull
	statusNobody = "503" // no responders
)

// errNoConsumer means that the consumer or its stream does not exist.
var errNoConsumer = errors.New("the consumer does not exist")

type consumer struct {
	q     *Queue
	class string
}

// Consumer returns the deliveries of a class. A dispatcher creates the consumer at once; for a
// worker, the dispatcher that relays its pull does.
func (q *Queue) Consumer(ctx context.Context, class string) (queue.Consumer, error) {
	if q.cfg.Worker == nil {
		if err := q.ensureConsumer(ctx, class); err != nil {
			return nil, err
		}
	}
	return &consumer{q: q, class: class}, nil
}

// Fetch sends one pull. The client library's own Fetch drops messages in transit when its context
// ends, and they wait for the ack wait. This one returns them.
func (c *consumer) Fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) (sent int, err error) {
	if n <= 0 || ctx.Err() != nil {
		return 0, nil
	}
	end := time.Now().Add(wait)
	r := pullRequest{Class: c.class}
	for left := wait; ; left = time.Until(end) {
		r.Batch, r.Wait = n, job.Duration(max(left, 0))
		p, err := c.pull(ctx, r, out)
		sent += p.sent
		if !errors.Is(err, errNoConsumer) {
			return sent, err
		}
		// As with a stream, a deletion must be complete first.
		if pause(ctx, recreatePause) != nil {
			return sent, nil
		}
		r.Gone = true
		if n -= p.got; n == 0 || time.Until(end) <= 0 {
			return sent, nil
		}
	}
}

func (c *consumer) pull(ctx context.Context, r pullRequest, out chan<- queue.Message) (pull, error) {
	changed := c.q.connectionChange()
	in := make(chan *nats.Msg, r.Batch+statusRoom)
	inbox := c.q.nc.NewInbox()
	sub, err := c.q.nc.ChanSubscribe(inbox, in)
	if err != nil {
		return pull{}, unavailable("fetch", err)
	}
	if err := c.request(ctx, r, inbox); err != nil {
		_ = sub.Unsubscribe()
		return pull{}, unavailable("fetch", err)
	}
	p := pull{c: c, in: in, out: out, want: r.Batch, beat: r.Wait.D() >= heartbeatMinWait}
	if err = p.receive(ctx, r.Wait.D(), changed); p.served {
		_ = sub.Unsubscribe() // the server has finished: nothing is in transit
		return p, err
	}
	p.stop(sub)
	return p, err
}

// pull is one request and its progress.
type pull struct {
	c         *consumer
	in        chan *nats.Msg
	out       chan<- queue.Message
	want, got int
	sent      int // of got; the others were not deliveries
	beat      bool
	served    bool
}

// request sends the pull to a dispatcher, or to the server if this is a dispatcher.
func (c *consumer) request(ctx context.Context, r pullRequest, inbox string) error {
	q := c.q
	if q.cfg.Worker == nil {
		// As for a worker: there is no response to a pull from a missing consumer.
		if r.Gone || !q.seen.recently(r.Class) {
			if err := q.look(ctx, r.Class); err != nil {
				return err
			}
		}
		return q.pull(r, inbox)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return q.nc.PublishRequest(q.request(q.cfg.Worker.ID, kindPull), inbox, body)
}

func (p *pull) receive(ctx context.Context, wait time.Duration, changed <-chan struct{}) error {
	silence := wait + fetchGrace
	if p.beat {
		silence = missedHeartbeats
	}
	timer := time.NewTimer(min(silence, unanswered))
	defer timer.Stop()
	for first := true; p.got < p.want; first = false {
		select {
		case m := <-p.in:
			if p.beat || first {
				timer.Reset(silence)
			}
			if done, err := p.handle(ctx, m); done || err != nil {
				p.served = done
				return err
			}
		case <-timer.C:
			return nil
		case <-changed: // the server has lost the request
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	p.served = true
	return nil
}

// handle passes a delivery on, or reads a status. done means that the server will send nothing
// more.
func (p *pull) handle(ctx context.Context, m *nats.Msg) (done bool, err error) {
	if code := m.Header.Get(errorHeader); code != "" { // from the dispatcher
		return true, unavailable("fetch", fmt.Errorf("%s: %w", m.Data, codeError(code)))
	}
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 {
		if status == statusNobody && p.c.q.cfg.Worker != nil {
			return true, unavailable("fetch", errors.New("no dispatcher to relay it"))
		}
		return pullStatus(status, m.Header.Get("Description"))
	}
	d, err := newDelivery(p.c, m)
	if err != nil {
		// Not a delivery; it would be redelivered for ever.
		p.c.q.log.Error("invalid delivery dropped", "subject", m.Subject, "error", err)
		p.got++
		return false, p.c.answer(receipt{To: m.Reply, Do: verbTerm})
	}
	select {
	case p.out <- d:
		p.got, p.sent = p.got+1, p.sent+1
		return false, nil
	case <-ctx.Done():
		return false, d.Nak(0)
	}
}

func pullStatus(status, description string) (done bool, err error) {
	switch status {
	case statusGoesOn:
		return false, nil
	case "404", "408": // no message, or time is over
		return true, nil
	case statusNobody: // no such consumer
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

// stop ends a pull before the server does. It unsubscribes, waits for the server's confirmation,
// and returns messages that arrived in the meantime.
func (p *pull) stop(sub *nats.Subscription) {
	_ = sub.Drain() // for a channel: ends interest, but still delivers messages in transit
	_ = p.c.q.nc.FlushTimeout(stopTimeout)
	for {
		select {
		case m := <-p.in:
			if m.Header.Get("Status") == "" && m.Header.Get(errorHeader) == "" {
				if d, err := newDelivery(p.c, m); err == nil {
					_ = d.Nak(0) // otherwise the ack wait returns it
				}
			}
		default:
			return
		}
	}
}

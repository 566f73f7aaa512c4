package jetstream

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// delivery is one message. Its acknowledgement is not confirmed. If one is lost, the message is
// redelivered and the store's claim guard rejects it.
type delivery struct {
	c     *consumer
	reply string
	ref   store.Ref
	trace string
}

var _ queue.Message = (*delivery)(nil)

func newDelivery(c *consumer, m *nats.Msg) (*delivery, error) {
	ref, err := parseRef(m.Subject)
	if err != nil {
		return nil, err
	}
	d := &delivery{c: c, reply: m.Reply, ref: ref}
	if v := m.Header[traceHeader]; len(v) > 0 {
		d.trace = v[0]
	}
	return d, nil
}

func (d *delivery) Ref() store.Ref      { return d.ref }
func (d *delivery) TraceParent() string { return d.trace }
func (d *delivery) Ack() error          { return d.answer(verbAck, 0) }
func (d *delivery) InProgress() error   { return d.answer(verbProgress, 0) }

func (d *delivery) Nak(delay time.Duration) error {
	return d.answer(verbNak, delay)
}

func (d *delivery) answer(do verb, delay time.Duration) error {
	return d.c.answer(receipt{To: d.reply, Job: d.ref.Job, Gen: d.ref.Generation, Do: do, Delay: job.Duration(delay)})
}

// answer acknowledges a delivery. An error means that the connection is down.
func (c *consumer) answer(a receipt) error {
	if !c.q.nc.IsConnected() {
		return unavailable(string(a.Do), nats.ErrDisconnected)
	}
	if c.q.cfg.Worker == nil {
		return c.q.acknowledge(a)
	}
	c.q.receipts.add(c.class, a)
	return nil
}

const (
	// receiptPause is how long a receipt waits for others to share a message.
	receiptPause = 2 * time.Millisecond
	mostReceipts = 500 // in one message
)

// receipts are a worker's pending acknowledgements to the dispatchers.
type receipts struct {
	say func(ackRequest)

	mu      sync.Mutex
	waiting map[string][]receipt // by class
	due     bool                 // a flush is scheduled
}

func newReceipts(say func(ackRequest)) *receipts {
	return &receipts{say: say, waiting: map[string][]receipt{}}
}

func (as *receipts) add(class string, a receipt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.waiting[class] = append(as.waiting[class], a)
	if !as.due {
		as.due = true
		time.AfterFunc(receiptPause, as.flush)
	}
}

// flush sends pending receipts in their order.
func (as *receipts) flush() {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.due = false
	for class, waiting := range as.waiting {
		for len(waiting) > 0 {
			n := min(len(waiting), mostReceipts)
			as.say(ackRequest{Class: class, Receipts: waiting[:n]})
			waiting = waiting[n:]
		}
	}
	clear(as.waiting)
}

// sayReceipts sends receipts to the dispatchers. After a failure the messages are redelivered, and
// their claims rejected.
func (q *Queue) sayReceipts(r ackRequest) {
	body, err := json.Marshal(r)
	if err == nil {
		err = q.nc.Publish(q.request(q.cfg.Worker.ID, kindAck), body)
	}
	if err != nil {
		q.log.Warn("delivery acknowledgments not sent", "deliveries", len(r.Receipts), "error", err)
	}
}

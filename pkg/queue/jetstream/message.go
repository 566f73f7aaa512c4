package jetstream

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// What a consumer understands as an answer to a delivery (ADR-15).
var (
	ackDone     = []byte("+ACK")
	ackNak      = []byte("-NAK")
	ackProgress = []byte("+WPI")
	ackTerm     = []byte("+TERM")
)

// delivery is one message. Its answers are not confirmed: if one is lost the
// delivery is made again, and the claim guard of the store refuses it.
type delivery struct {
	nc    *nats.Conn
	reply string
	ref   store.Ref
	trace string
}

var _ queue.Message = (*delivery)(nil)

func newDelivery(nc *nats.Conn, m *nats.Msg) (*delivery, error) {
	ref, err := parseRef(m.Subject)
	if err != nil {
		return nil, err
	}
	d := &delivery{nc: nc, reply: m.Reply, ref: ref}
	if v := m.Header[traceHeader]; len(v) > 0 {
		d.trace = v[0]
	}
	return d, nil
}

func (d *delivery) Ref() store.Ref      { return d.ref }
func (d *delivery) TraceParent() string { return d.trace }
func (d *delivery) Ack() error          { return d.answer("ack", ackDone) }
func (d *delivery) InProgress() error   { return d.answer("in progress", ackProgress) }

func (d *delivery) Nak(delay time.Duration) error {
	body := ackNak
	if delay > 0 {
		body = fmt.Appendf(nil, "%s {\"delay\": %d}", ackNak, delay.Nanoseconds())
	}
	return d.answer("nak", body)
}

func (d *delivery) answer(what string, body []byte) error {
	if err := d.nc.Publish(d.reply, body); err != nil {
		return unavailable(what, err)
	}
	return nil
}

package jetstream

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// desk is where a dispatcher hears the answers of workers: not in an inbox, for a
// worker that may publish in the inboxes of dispatchers could answer for another one.
// The server lets each worker publish below its own name only:
//
//	assay.ans.<worker>.<desk>.<number of the question>
type desk struct {
	nc   *nats.Conn
	name string

	mu      sync.Mutex
	last    uint64
	waiting map[string]chan *nats.Msg // by subject
}

// openDesk listens for answers as long as the connection lives.
func openDesk(nc *nats.Conn) (*desk, error) {
	d := &desk{nc: nc, name: rand.Text(), waiting: map[string]chan *nats.Msg{}}
	_, err := nc.Subscribe(answerPrefix+"*."+d.name+".*", d.hear)
	return d, err
}

func (d *desk) hear(m *nats.Msg) {
	if answer := d.forget(m.Subject); answer != nil {
		answer <- m
	}
}

// forget returns where the answer on a subject is waited for, once.
func (d *desk) forget(subject string) chan *nats.Msg {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := d.waiting[subject]
	delete(d.waiting, subject)
	return answer
}

func (d *desk) expect(worker string) (subject string, answer chan *nats.Msg) {
	answer = make(chan *nats.Msg, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	subject = strings.Join([]string{answerPrefix + token(worker), d.name, strconv.FormatUint(d.last, 10)}, ".")
	d.waiting[subject] = answer
	return subject, answer
}

// asking returns what asks a worker: nats.ErrNoResponders says that it is not there.
func (d *desk) asking(worker string) requester {
	return func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		reply, answer := d.expect(worker)
		defer d.forget(reply)
		m.Reply = reply
		if err := d.nc.PublishMsg(m); err != nil {
			return nil, err
		}
		select {
		case m := <-answer:
			if len(m.Data) == 0 && m.Header.Get("Status") == statusNobody {
				return nil, nats.ErrNoResponders
			}
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

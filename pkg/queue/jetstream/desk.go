package jetstream

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// desk receives workers' responses for a dispatcher. It does not use an inbox: a worker that may
// publish in dispatchers' inboxes could respond for another worker. The server lets each worker
// publish below its own name only:
//
//	assay.ans.<worker>.<desk>.<number of the request>
type desk struct {
	nc   *nats.Conn
	name string

	mu      sync.Mutex
	last    uint64
	waiting map[string]chan *nats.Msg // by subject
}

// openDesk subscribes to responses while the connection lives.
func openDesk(nc *nats.Conn) (*desk, error) {
	d := &desk{nc: nc, name: rand.Text(), waiting: map[string]chan *nats.Msg{}}
	_, err := nc.Subscribe(answerPrefix+"*."+d.name+".*", d.handleMessage)
	return d, err
}

func (d *desk) handleMessage(m *nats.Msg) {
	if answer := d.forget(m.Subject); answer != nil {
		answer <- m
	}
}

// forget removes and returns the channel that waits for the response on a subject.
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

// asking returns a requester for a worker. Its error nats.ErrNoResponders means that the worker is
// not connected.
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

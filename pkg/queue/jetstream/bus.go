package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// SendCancel requests that a worker stop a job. There is no response; the next heartbeat repeats
// the request.
func (q *Queue) SendCancel(worker string, l store.LeaseRef) error {
	body, err := control.Encode(l)
	if err != nil {
		return err
	}
	return q.send(toWorker(worker, kindCancel), body)
}

// OnCancel subscribes to SendCancel.
func (q *Queue) OnCancel(ctx context.Context, worker string, f func(store.LeaseRef)) error {
	return q.listen(ctx, toWorker(worker, kindCancel), func(body []byte) {
		var l store.LeaseRef
		if err := control.Decode(body, &l); err != nil {
			q.log.WarnContext(ctx, "invalid cancel message dropped", "error", err)
			return
		}
		f(l)
	})
}

// Assign requests that a worker take a job.
func (q *Queue) Assign(ctx context.Context, worker string, a control.Assignment) error {
	body, err := control.Encode(a)
	if err != nil {
		return fmt.Errorf("assign: %w: %w", job.ErrInvalid, err)
	}
	_, err = q.ask(ctx, worker, kindAssign, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: worker %s is no longer connected", job.ErrLost, worker)
	case err != nil:
		return fmt.Errorf("assign: %w", err)
	}
	return nil
}

// OnAssign subscribes to Assign.
func (q *Queue) OnAssign(ctx context.Context, worker string, f func(control.Assignment) error) error {
	return serveWorker(ctx, q, worker, kindAssign, func(_ context.Context, a control.Assignment) (struct{}, error) {
		return struct{}{}, f(a)
	})
}

// SendClasses sends the current classes of jobs to the workers of a pool.
func (q *Queue) SendClasses(pool string, classes []string) error {
	body, err := control.Encode(classes)
	if err != nil {
		return err
	}
	return q.send(poolPrefix+token(pool)+"."+kindClasses, body)
}

// OnClasses subscribes to SendClasses.
func (q *Queue) OnClasses(ctx context.Context, pool string, f func([]string)) error {
	return q.listen(ctx, poolPrefix+token(pool)+"."+kindClasses, func(body []byte) {
		var classes []string
		if err := control.Decode(body, &classes); err != nil {
			q.log.WarnContext(ctx, "invalid list of job classes dropped", "error", err)
			return
		}
		f(classes)
	})
}

// Wake notifies every subscribed dispatcher.
func (q *Queue) Wake(topic string, payload []byte) error {
	return q.send(wakePrefix+token(topic), payload)
}

// OnWake subscribes to Wake.
func (q *Queue) OnWake(ctx context.Context, topic string, f func([]byte)) error {
	return q.listen(ctx, wakePrefix+token(topic), f)
}

// Broadcast sends payload to every dispatcher that subscribes to the topic.
func (q *Queue) Broadcast(worker, topic string, payload []byte) error {
	return q.send(q.request(worker, kindTell)+"."+token(topic), payload)
}

// OnWorkerEvent subscribes to Broadcast. The server has authenticated the worker's name.
func (q *Queue) OnWorkerEvent(ctx context.Context, topic string, f func(worker string, payload []byte)) error {
	return q.listenFor(ctx, requestPrefix+"*.*."+kindTell+"."+token(topic), func(m *nats.Msg) {
		if _, worker, err := speaker(m.Subject); err == nil {
			f(worker, m.Data)
		}
	})
}

func (q *Queue) send(subject string, body []byte) error {
	if err := q.nc.Publish(subject, body); err != nil {
		return unavailable("send to "+subject, err)
	}
	return nil
}

func (q *Queue) listen(ctx context.Context, subject string, f func([]byte)) error {
	return q.listenFor(ctx, subject, func(m *nats.Msg) { f(m.Data) })
}

// listenFor returns after the server has the subscription, which ends with ctx.
func (q *Queue) listenFor(ctx context.Context, subject string, f nats.MsgHandler) error {
	sub, err := q.nc.Subscribe(subject, f)
	if err != nil {
		return unavailable("listen on "+subject, err)
	}
	flushCtx, cancel := q.deadline(ctx)
	defer cancel()
	if err := q.nc.FlushWithContext(flushCtx); err != nil {
		_ = sub.Unsubscribe()
		return unavailable("listen on "+subject, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() })
	return nil
}

package jetstream

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// A delivery is acknowledged by its number in the stream. A malicious worker could guess numbers,
// but not the job of a number. So each receipt of a worker names the job, and dispatchers compare
// it with the number. After a publish a dispatcher sends the numbers to the others. Forgotten
// numbers are read from the stream.
//
//	assay.placed    the first number, then the job and generation of each
const (
	placedSubject = "assay.placed"
	idSize        = 36
	refSize       = idSize + 4
	mostPlaced    = 1 << 16 // fewest entries kept; at most twice as many
)

// errNotIts means that a receipt is for a delivery of a different job.
var errNotIts = fmt.Errorf("%w: the delivery is not of the job that the receipt names", job.ErrRefused)

// placed maps numbers in the stream to deliveries.
type placed struct {
	mu          sync.Mutex
	now, before map[uint64]store.Ref
}

func (p *placed) note(seq uint64, ref store.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || len(p.now) >= mostPlaced {
		p.now, p.before = map[uint64]store.Ref{}, p.now
	}
	p.now[seq] = ref
}

// is reports whether a number is known to be of this delivery. A false result is not conclusive: a
// recreated stream counts from one.
func (p *placed) is(seq uint64, ref store.Ref) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, ok := p.now[seq]; ok {
		return got == ref
	}
	return p.before[seq] == ref
}

// tellPlaced sends the numbers of published messages to every dispatcher, including this one.
func (q *Queue) tellPlaced(first uint64, ds []store.Dispatch) {
	body := make([]byte, 0, 8+refSize*len(ds))
	body = binary.BigEndian.AppendUint64(body, first)
	for _, d := range ds {
		if len(d.Job) != idSize {
			return
		}
		body = binary.BigEndian.AppendUint32(append(body, d.Job...), uint32(d.Generation))
	}
	_ = q.nc.Publish(placedSubject, body) // otherwise it is read from the stream
}

func (q *Queue) handlePlaced(m *nats.Msg) {
	if len(m.Data) < 8 || (len(m.Data)-8)%refSize != 0 {
		q.log.Warn("invalid delivery numbers dropped", "bytes", len(m.Data))
		return
	}
	seq := binary.BigEndian.Uint64(m.Data)
	for rest := m.Data[8:]; len(rest) > 0; rest, seq = rest[refSize:], seq+1 {
		generation := binary.BigEndian.Uint32(rest[idSize:])
		q.placed.note(seq, store.Ref{Job: job.ID(rest[:idSize]), Generation: job.Generation(generation)})
	}
}

// lookUp reads from the stream whether a receipt is for a delivery of its job. Any worker may
// terminate a message that is not a delivery, because nothing else can be done with it.
func (q *Queue) lookUp(ctx context.Context, seq uint64, r receipt) error {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	m, err := q.nc.RequestWithContext(ctx, messageSubject, fmt.Appendf(nil, `{"seq":%d}`, seq))
	if err != nil {
		return unavailable("read a message", err)
	}
	var got struct {
		Message struct {
			Subject string `json:"subject"`
		} `json:"message"`
		Error *refusedError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &got); err != nil {
		return unavailable("read a message", err)
	}
	if got.Error != nil {
		return fmt.Errorf("%w: message %d: %w", job.ErrNotFound, seq, got.Error)
	}
	ref, err := parseRef(got.Message.Subject)
	switch {
	case err != nil && r.Do == verbTerm:
		return nil
	case err != nil, ref != r.ref():
		return errNotIts
	}
	q.placed.note(seq, ref)
	return nil
}

// relayReceipts relays receipts that match their jobs. A goroutine handles receipts that require a
// look-up in the stream.
func (s *server) relayReceipts(worker string, r ackRequest) error {
	consumer := s.q.consumerName(r.Class)
	var unknown []receipt
	for _, a := range r.Receipts {
		seq, err := numberOf(a.To, consumer)
		if err != nil {
			return err
		}
		if !s.q.placed.is(seq, a.ref()) {
			unknown = append(unknown, a)
		} else if err := s.q.acknowledge(a); err != nil {
			return err
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	s.running.Go(func() {
		for _, a := range unknown {
			seq, err := numberOf(a.To, consumer)
			if err == nil {
				err = s.q.lookUp(s.base, seq, a)
			}
			if err == nil {
				err = s.q.acknowledge(a)
			}
			if err != nil && !errors.Is(err, job.ErrNotFound) { // it is gone: acknowledged twice
				s.q.log.Warn("invalid receipt dropped", "worker", worker, "job", a.Job, "error", err)
			}
		}
	})
	return nil
}

// numberOf returns the stream number in the acknowledgement subject of a consumer's delivery.
func numberOf(subject, consumer string) (uint64, error) {
	numbers := ofConsumer(subject, consumer)
	if numbers == nil {
		return 0, fmt.Errorf("%w: %.200q is not where a delivery of %.100q is answered", job.ErrRefused, subject, consumer)
	}
	return strconv.ParseUint(numbers[1], 10, 64)
}

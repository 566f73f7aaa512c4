package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
)

// A control message's body may be larger than the server's max_payload: the
// specs of 500 claimed jobs, the results of a full worker. Such a body is
// framed. The message carries its first chunk, its size and where to ask for
// the rest; the receiver asks for one chunk after the other, so that never more
// than one is on its way and no buffer on the path overflows:
//
//	message   Assay-Size: 20971520   Assay-Rest: assay.rest.w.x    first chunk
//	request   to assay.rest.w.x      body: "4190208"               offset
//	reply                                                    next chunk
//
// The rest is at a subject that the receiver may publish on, and that has to be the
// sender's, and so has the subject of each reply: a dispatcher would otherwise publish
// wherever a worker tells it to.
//
// The sender keeps the body until all of it was asked for, the exchange is
// over, or nobody has asked for frameTimeout.
const (
	sizeHeader  = "Assay-Size"
	restHeader  = "Assay-Rest"
	errorHeader = "Assay-Error"

	frameTimeout = 10 * time.Second
	maxChunk     = 4 << 20 // larger messages hold up the heartbeats behind them
	headerRoom   = 4 << 10 // headers count towards max_payload
	maxBody      = 2 << 30 // refuse to believe more
)

// frame is a body on its way out.
type frame struct {
	body  []byte
	may   func(reply string) bool // whether to answer there
	chunk int
	sub   *nats.Subscription
	idle  *time.Timer
	once  sync.Once
}

// newFrame prepares body for m, whose Data it sets; the rest of it is below a subject,
// for who wants the answer where it may be. close must be called when the exchange is
// over; it may be left to the idle timeout.
func newFrame(nc *nats.Conn, m *nats.Msg, body []byte, below string, may func(reply string) bool) (*frame, error) {
	f := &frame{body: body, may: may, chunk: chunkSize(nc.MaxPayload())}
	if len(body) <= f.chunk {
		m.Data = body
		return f, nil
	}
	inbox := below + "." + rand.Text()
	f.idle = time.AfterFunc(frameTimeout, f.close)
	sub, err := nc.Subscribe(inbox, f.serve)
	if err != nil {
		f.idle.Stop()
		return nil, err
	}
	f.sub = sub
	m.Data = body[:f.chunk]
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header.Set(sizeHeader, strconv.Itoa(len(body)))
	m.Header.Set(restHeader, inbox)
	return f, nil
}

func chunkSize(maxPayload int64) int {
	return int(max(min(maxPayload-headerRoom, maxChunk), 1))
}

func (f *frame) serve(m *nats.Msg) {
	if !f.may(m.Reply) {
		return
	}
	f.idle.Reset(frameTimeout)
	offset, err := strconv.Atoi(string(m.Data))
	if err != nil || offset < 0 || offset >= len(f.body) {
		return // not one of ours; the asker times out
	}
	end := min(offset+f.chunk, len(f.body))
	_ = m.Respond(f.body[offset:end]) // if it fails the asker times out
	if end == len(f.body) {
		f.close()
	}
}

func (f *frame) close() {
	f.once.Do(func() {
		if f.sub != nil {
			f.idle.Stop()
			_ = f.sub.Unsubscribe()
		}
	})
}

// requester asks at m.Subject and returns the answer.
type requester func(ctx context.Context, m *nats.Msg) (*nats.Msg, error)

// readFrame returns the whole body of m, the rest of which is below a subject.
func readFrame(ctx context.Context, ask requester, m *nats.Msg, below string) ([]byte, error) {
	rest := m.Header.Get(restHeader)
	if rest == "" {
		return m.Data, nil
	}
	size, err := strconv.Atoi(m.Header.Get(sizeHeader))
	if err != nil || size < len(m.Data) || size > maxBody {
		return nil, fmt.Errorf("%w: frame of %q bytes", job.ErrInvalid, m.Header.Get(sizeHeader))
	}
	if !literal(rest, below+".") {
		return nil, fmt.Errorf("%w: the rest of a frame at %.80q", job.ErrInvalid, rest)
	}
	body := append(make([]byte, 0, size), m.Data...)
	for len(body) < size {
		chunk, err := ask(ctx, &nats.Msg{Subject: rest, Data: strconv.AppendInt(nil, int64(len(body)), 10)})
		if err != nil {
			return nil, fmt.Errorf("rest of a frame: %w", err)
		}
		if len(chunk.Data) == 0 || len(chunk.Data) > size-len(body) {
			return nil, errors.New("rest of a frame: chunk of an impossible size")
		}
		body = append(body, chunk.Data...)
	}
	return body, nil
}

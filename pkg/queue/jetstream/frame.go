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
//
// The size that a message claims is believed as the bytes arrive: what is more than
// its receiver takes is refused before the first chunk is asked for, and memory is
// taken for what has come. A worker that claims much and sends nothing costs nothing
// but the time of one chunk.
const (
	sizeHeader  = "Assay-Size"
	restHeader  = "Assay-Rest"
	errorHeader = "Assay-Error"

	frameTimeout = 10 * time.Second
	maxChunk     = 4 << 20 // larger messages hold up the heartbeats behind them
	headerRoom   = 4 << 10 // headers count towards max_payload

	// maxAnswer is the most that is taken as an answer: the specs of claimed jobs, a
	// file of a session.
	maxAnswer = 256 << 20
	// firstRoom is how much memory is taken for the body of a frame before more of it
	// has come than its first chunk; it then doubles.
	firstRoom = 1 << 20
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

// sizeOf returns how large the body of m says it is, and where its rest is to be had:
// nowhere if there is none. What is above most is refused as job.ErrTooLarge, what
// cannot be as job.ErrInvalid.
func sizeOf(m *nats.Msg, below string, most int) (size int, rest string, err error) {
	if rest = m.Header.Get(restHeader); rest == "" {
		return len(m.Data), "", nil
	}
	size, err = strconv.Atoi(m.Header.Get(sizeHeader))
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && size > most:
		return 0, "", fmt.Errorf("%w: a message of %.40s bytes, and %d are the most", job.ErrTooLarge, m.Header.Get(sizeHeader), most)
	case err != nil, size < len(m.Data):
		return 0, "", fmt.Errorf("%w: frame of %.40q bytes", job.ErrInvalid, m.Header.Get(sizeHeader))
	case !literal(rest, below+"."):
		return 0, "", fmt.Errorf("%w: the rest of a frame at %.80q", job.ErrInvalid, rest)
	}
	return size, rest, nil
}

// readFrame returns the whole body of m, the rest of which is below a subject, if it
// has no more than most bytes. Each chunk has frameTimeout to come.
func readFrame(ctx context.Context, ask requester, m *nats.Msg, below string, most int) ([]byte, error) {
	size, rest, err := sizeOf(m, below, most)
	if err != nil || rest == "" {
		return m.Data, err
	}
	body := append(make([]byte, 0, min(size, max(firstRoom, len(m.Data)))), m.Data...)
	for len(body) < size {
		chunk, err := askChunk(ctx, ask, rest, len(body))
		if err != nil {
			return nil, fmt.Errorf("rest of a frame: %w", err)
		}
		if len(chunk) == 0 || len(chunk) > size-len(body) {
			return nil, errors.New("rest of a frame: chunk of an impossible size")
		}
		if need := len(body) + len(chunk); need > cap(body) {
			body = append(make([]byte, 0, min(size, max(need, 2*cap(body)))), body...)
		}
		body = append(body, chunk...)
	}
	return body, nil
}

func askChunk(ctx context.Context, ask requester, rest string, offset int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	m, err := ask(ctx, &nats.Msg{Subject: rest, Data: strconv.AppendInt(nil, int64(offset), 10)})
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

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

// A control message's body may be larger than the server's max_payload: the specs of 500 claimed
// jobs, the results of a busy worker. Such a body is framed. The message carries its first chunk,
// its size and the subject of the rest. The receiver requests one chunk at a time, so that no
// buffer on the path overflows:
//
//	message   Assay-Size: 20971520   Assay-Rest: assay.rest.w.x    first chunk
//	request   to assay.rest.w.x      body: "4190208"               offset
//	reply                                                    next chunk
//
// The subject of the rest must belong to the sender, and the subject of each reply to the receiver.
// Otherwise a worker could make a dispatcher publish on any subject.
//
// The sender keeps the body until the receiver has all of it, the exchange is over, or frameTimeout
// has passed without a request.
//
// A receiver rejects an announced size above its limit before it requests a chunk. It allocates
// memory only for bytes that have arrived. A worker that announces much and sends nothing costs
// only the time of one chunk.
const (
	sizeHeader  = "Assay-Size"
	restHeader  = "Assay-Rest"
	errorHeader = "Assay-Error"

	frameTimeout = 10 * time.Second
	maxChunk     = 4 << 20 // larger messages delay the heartbeats behind them
	headerRoom   = 4 << 10 // headers count towards max_payload

	// maxAnswer is the largest accepted response: the specs of claimed jobs, a file of a session.
	maxAnswer = 256 << 20
	// firstRoom is the memory allocated for a frame's body before more than its first chunk has
	// arrived. It then doubles.
	firstRoom = 1 << 20
)

// frame is an outgoing body.
type frame struct {
	body  []byte
	may   func(reply string) bool // whether to respond there
	chunk int
	sub   *nats.Subscription
	idle  *time.Timer
	once  sync.Once
}

// newFrame prepares body for m and sets its Data. It serves the rest below a subject, to permitted
// reply subjects. The caller calls close after the exchange, or leaves it to the idle timeout.
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
		return // not one of ours; the requester times out
	}
	end := min(offset+f.chunk, len(f.body))
	_ = m.Respond(f.body[offset:end]) // after a failure the requester times out
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

// requester sends a request to m.Subject and returns the response.
type requester func(ctx context.Context, m *nats.Msg) (*nats.Msg, error)

// sizeOf returns the announced size of m's body and the subject of its rest, or "" if there is
// none. The error is job.ErrTooLarge above most, and job.ErrInvalid for a malformed header.
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

// readFrame returns the whole body of m, whose rest is below a subject. The body may have at most
// most bytes. Each chunk must arrive within frameTimeout.
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

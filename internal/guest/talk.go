package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/boundedjson"
)

// MaxTalk is the longest body of a frame between the worker and a running
// interpreter, in bytes.
const MaxTalk = 32 << 20

// ErrProtocol is wrapped by every error about what the other end sent, rather
// than about the connection.
var ErrProtocol = errors.New("the program breaks the protocol")

// ErrCut is an ErrProtocol: the stream ended within a frame. So it does, too, where
// the program is killed while it writes one.
var ErrCut = fmt.Errorf("%w: it ended within a frame", ErrProtocol)

// WriteTalk writes v as one frame, in one Write.
func WriteTalk(w io.Writer, v any) error {
	frame, err := encodeTalk(v)
	if err == nil {
		_, err = w.Write(frame)
	}
	return err
}

// WriteTalkFiles is WriteTalk with descriptors, which come with the first byte
// of the frame.
func WriteTalkFiles(conn *net.UnixConn, v any, files []*os.File) error {
	frame, err := encodeTalk(v)
	if err != nil {
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	n, _, err := conn.WriteMsgUnix(frame, unix.UnixRights(fds...), nil)
	if err == nil && n < len(frame) {
		_, err = conn.Write(frame[n:])
	}
	return err
}

func encodeTalk(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a frame: %w", err)
	}
	if len(body) > MaxTalk {
		return nil, fmt.Errorf("frame of %d bytes: the limit is %d", len(body), MaxTalk)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, len(body)+4), uint32(len(body))), body...), nil
}

// ReadTalk reads the body of one frame of at most limit bytes: a JSON object, of
// which nothing else is known. Memory grows with what arrives, not with what is
// announced. io.EOF means that the stream ended between frames;
// what the other end did wrong wraps ErrProtocol. If room is not nil, it is asked
// before the body is read, with its length, and its error is returned.
func ReadTalk(r io.Reader, limit int, room func(size int) error) (json.RawMessage, error) {
	return ReadTalkWithin(r, TalkBounds{Bytes: limit, Long: limit}, room)
}

// TalkBounds says what frames may be: of Bytes at most, and with few values if they
// are longer than Long.
type TalkBounds struct {
	Bytes, Long int
	Values      boundedjson.Limits
}

// ReadTalkWithin is ReadTalk for frames within bounds.
func ReadTalkWithin(r io.Reader, b TalkBounds, room func(size int) error) (json.RawMessage, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, cutShort(err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(min(b.Bytes, MaxTalk)) {
		return nil, fmt.Errorf("%w: a frame of %d bytes; at most %d", ErrProtocol, n, min(b.Bytes, MaxTalk))
	}
	if room != nil {
		if err := room(int(n)); err != nil {
			return nil, err
		}
	}
	body, err := boundedjson.ReadWithin(r, int(n), b.Long, b.Values)
	if errors.Is(err, boundedjson.ErrLimit) {
		return nil, fmt.Errorf("%w: a frame of %d bytes %w", ErrProtocol, n, err)
	}
	if err != nil {
		return nil, cutShort(err)
	}
	if len(body) == 0 || body[0] != '{' || !json.Valid(body) {
		return nil, fmt.Errorf("%w: a frame that is no JSON object", ErrProtocol)
	}
	return body, nil
}

func cutShort(err error) error {
	if err == io.ErrUnexpectedEOF {
		return ErrCut
	}
	return err
}

// Package frame is how programs that do not trust each other talk over a stream: a
// length of four bytes, big-endian, and as many bytes of JSON.
//
// Memory grows with what arrives, not with what is announced, and a reader names the
// limits of what it takes. What the other end did wrong wraps ErrProtocol; io.EOF means
// that the stream ended between frames; everything else is about the connection.
package frame

import (
	"bytes"
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

// Max is the longest body of any frame, in bytes.
const Max = 32 << 20

// ErrProtocol is wrapped by every error about what the other end sent, rather
// than about the connection.
var ErrProtocol = errors.New("the program breaks the protocol")

// ErrCut is an ErrProtocol: the stream ended within a frame. So it does, too, where
// the program is killed while it writes one.
var ErrCut = fmt.Errorf("%w: it ended within a frame", ErrProtocol)

// Limits says what frames may be: of Bytes at most, and with few Values if they are
// longer than Free.
type Limits struct {
	Bytes, Free int
	Values      boundedjson.Limits
}

// Bytes are limits of frames of n bytes at most, with any number of values.
func Bytes(n int) Limits { return Limits{Bytes: n, Free: n} }

// Of returns body, which is JSON already, as a frame.
func Of(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, len(body)+4), uint32(len(body))), body...)
}

// Encode returns v as a frame of at most most bytes of JSON.
func Encode(v any, most int) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a frame: %w", err)
	}
	if len(body) > most {
		return nil, fmt.Errorf("frame of %d bytes: the limit is %d", len(body), most)
	}
	return Of(body), nil
}

// Write writes v as one frame, in one Write.
func Write(w io.Writer, v any) error {
	frame, err := Encode(v, Max)
	if err == nil {
		_, err = w.Write(frame)
	}
	return err
}

// WriteFiles is Write with descriptors, which come with the first byte of the frame.
func WriteFiles(conn *net.UnixConn, v any, files []*os.File) error {
	frame, err := Encode(v, Max)
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

// Read reads the body of one frame within limits. Nothing but its length and, if it is
// longer than l.Free, the number of its values has been looked at: it need not be JSON.
// If room is not nil, it is asked before the body is read, with its length, and its
// error is returned.
func Read(r io.Reader, l Limits, room func(size int) error) (json.RawMessage, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, cut(err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if most := min(l.Bytes, Max); int64(n) > int64(most) {
		return nil, fmt.Errorf("%w: a frame of %d bytes; at most %d", ErrProtocol, n, most)
	}
	if room != nil {
		if err := room(int(n)); err != nil {
			return nil, err
		}
	}
	body, err := boundedjson.ReadWithin(r, int(n), l.Free, l.Values)
	if errors.Is(err, boundedjson.ErrLimit) {
		return nil, fmt.Errorf("%w: a frame of %d bytes %w", ErrProtocol, n, err)
	}
	return body, cut(err)
}

// ReadObject is Read for a frame that must be one JSON object, of which nothing else
// is known then.
func ReadObject(r io.Reader, l Limits, room func(size int) error) (json.RawMessage, error) {
	body, err := Read(r, l, room)
	if err == nil && (len(body) == 0 || body[0] != '{' || !json.Valid(body)) {
		return nil, fmt.Errorf("%w: a frame that is no JSON object", ErrProtocol)
	}
	return body, err
}

// Decode reads one frame of at most most bytes into v. One that is not JSON or has
// unknown fields is an ErrProtocol.
func Decode(r io.Reader, v any, most int) error {
	body, err := Read(r, Bytes(most), nil)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, noEnd(err))
	}
	if d.More() {
		return fmt.Errorf("%w: more than one value", ErrProtocol)
	}
	return nil
}

// noEnd hides the end of a body, which is not that of the stream.
func noEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func cut(err error) error {
	if err == io.ErrUnexpectedEOF {
		return ErrCut
	}
	return err
}

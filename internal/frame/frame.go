// Package frame is a stream protocol between programs that do not trust each other: a length in
// four bytes, big-endian, and a body of JSON.
//
// Memory grows with the received bytes, not the announced ones, and each reader sets its limits.
// Violations by the other end wrap ErrProtocol. io.EOF means that the stream ended between frames.
// Other errors are about the connection.
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

// ErrProtocol is wrapped by every error about the data from the other end, rather than the
// connection.
var ErrProtocol = errors.New("the program breaks the protocol")

// ErrCut is an ErrProtocol: the stream ended within a frame. This also happens if the program is
// killed while it writes.
var ErrCut = fmt.Errorf("%w: it ended within a frame", ErrProtocol)

// Limits are the limits of frames: at most Bytes, and limited Values above Free bytes.
type Limits struct {
	Bytes, Free int
	Values      boundedjson.Limits
}

// Bytes returns the limits of frames of at most n bytes with any number of values.
func Bytes(n int) Limits { return Limits{Bytes: n, Free: n} }

// Of returns body, which is JSON, as a frame.
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

// WriteFiles is Write with descriptors, which are sent with the first byte of the frame.
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

// Read reads the body of one frame within limits. It only checks the length and, above l.Free, the
// number of values, so the body may be invalid JSON. If room is not nil, Read first calls it with
// the length and returns its error.
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
	body, err := boundedjson.ReadLimited(r, int(n), l.Free, l.Values)
	if errors.Is(err, boundedjson.ErrLimit) {
		return nil, fmt.Errorf("%w: a frame of %d bytes %w", ErrProtocol, n, err)
	}
	return body, cut(err)
}

// CheckObject returns an ErrProtocol if the body of a frame is not one JSON object.
func CheckObject(body []byte) error {
	if len(body) == 0 || body[0] != '{' || !json.Valid(body) {
		return fmt.Errorf("%w: a frame that is no JSON object", ErrProtocol)
	}
	return nil
}

// Decode reads one frame of at most most bytes into v. Invalid JSON and unknown fields are an
// ErrProtocol.
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

// noEnd converts the end of a body to io.ErrUnexpectedEOF.
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

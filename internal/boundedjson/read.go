package boundedjson

import (
	"errors"
	"fmt"
	"io"
)

// readStep is how much is read before it is counted, in bytes.
const readStep = 256 << 10

// Read reads the n bytes that somebody announced. Memory grows with what arrives,
// in steps that leave little behind. An end before that is io.ErrUnexpectedEOF.
func Read(r io.Reader, n int) ([]byte, error) { return ReadWithin(r, n, n, Limits{}) }

// ReadWithin is Read for a text that must be within limits if it is longer than
// free bytes. It is counted as it arrives: of one that is beyond them, which is
// ErrLimit, no more is held than it took to see that.
func ReadWithin(r io.Reader, n, free int, l Limits) ([]byte, error) {
	c := counter{Limits: l, values: 1}
	body := make([]byte, 0, min(n, 32<<10))
	for len(body) < n {
		body = grown(body, n)
		begin := len(body)
		got, err := io.ReadFull(r, body[begin:min(cap(body), n, begin+readStep)])
		body = body[:begin+got]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if n > free {
			if err := c.add(body[begin:]); err != nil && len(body) > free {
				return nil, err
			}
		}
	}
	return body, nil
}

// ReadAll reads a text of at most most bytes until its end. One that is longer, or
// beyond the limits, is ErrLimit, as soon as that is seen.
func ReadAll(r io.Reader, most int, l Limits) ([]byte, error) {
	c := counter{Limits: l, values: 1}
	body := make([]byte, 0, 512)
	for {
		body = grown(body, most+1)
		begin := len(body)
		got, err := r.Read(body[begin:min(cap(body), begin+readStep)])
		body = body[:begin+got]
		if len(body) > most {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLimit, most)
		}
		if err := c.add(body[begin:]); err != nil {
			return nil, err
		}
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// grown returns body with room for more, if it has none, up to most bytes. It grows
// in few steps, so that what is left behind is small beside what is kept.
func grown(body []byte, most int) []byte {
	if len(body) < cap(body) {
		return body
	}
	size := 16 * cap(body)
	if cap(body) >= 1<<20 {
		size = most
	}
	out := make([]byte, len(body), min(size, most))
	copy(out, body)
	return out
}

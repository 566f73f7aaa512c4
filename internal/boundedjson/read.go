package boundedjson

import (
	"errors"
	"fmt"
	"io"
)

// readStep is how many bytes are read before they are counted.
const readStep = 256 << 10

// Read reads the announced n bytes. Memory grows with the received bytes, in steps that leave
// little garbage. A premature end is io.ErrUnexpectedEOF.
func Read(r io.Reader, n int) ([]byte, error) { return ReadLimited(r, n, n, Limits{}) }

// ReadLimited is Read for a text that must be within limits if it is longer than free bytes. It counts while it reads.
// For a text beyond the limits it returns ErrLimit early, and keeps only the bytes read so far.
func ReadLimited(r io.Reader, n, free int, l Limits) ([]byte, error) {
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

// ReadAll reads a text of at most most bytes to its end. It returns ErrLimit as soon as the text is
// longer or beyond the limits.
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

// grown returns body with spare capacity, up to most bytes. It grows in few steps, so that there is
// little garbage.
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

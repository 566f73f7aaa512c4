package boundedjson

import (
	"io"
	"slices"
)

// Read reads the n bytes that somebody announced. Memory grows with what arrives,
// in steps that leave little behind. An end before that is io.ErrUnexpectedEOF.
func Read(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, 0, min(n, 64<<10))
	for len(body) < n {
		if len(body) == cap(body) {
			body = slices.Grow(body, min(n-len(body), 3*len(body)))
		}
		got, err := io.ReadFull(r, body[len(body):min(cap(body), n)])
		body = body[:len(body)+got]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

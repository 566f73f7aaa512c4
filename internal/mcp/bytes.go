package mcp

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// whole returns the text without an incomplete character at its end.
func whole(text string) string {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		last := text[len(text)-cut:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return text[:len(text)-cut]
			}
			break
		}
	}
	return text
}

// part reads n bytes from offset on, and reports whether more bytes follow.
func part(r io.Reader, offset, n int64) (data []byte, more bool, err error) {
	skipped, err := io.CopyN(io.Discard, r, offset)
	if errors.Is(err, io.EOF) {
		return nil, false, job.Invalid("offset", "%d is beyond the end: there are %d bytes", offset, skipped)
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(r, n+1))
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: read: %w", job.ErrUnavailable, err)
	}
	if int64(len(data)) > n {
		return data[:n], true, nil
	}
	return data, false, nil
}

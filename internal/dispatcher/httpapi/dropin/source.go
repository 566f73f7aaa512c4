package dropin

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// unfitSource is the error of a source that no language accepts: it contains a NUL byte or is too long. Models write
// such sources, so endpoints respond with a failed program and not with a bad request.
type unfitSource struct{ error }

func (e *unfitSource) Unwrap() error { return e.error }

// unfit returns the error text of an unfit source. ok is false for all other errors.
func unfit(err error) (text string, ok bool) {
	var e *unfitSource
	if !errors.As(err, &e) {
		return "", false
	}
	return "error: " + e.Error() + "\n", true
}

// checkSource validates the source of a program.
func checkSource(field, s string) error {
	if err := checkText(field, s, job.MaxCode); err != nil {
		return &unfitSource{err}
	}
	return nil
}

// nul replaces unpaired surrogates and invalid UTF-8. They are invalid in any text, but must not make the whole request
// unreadable.
const nul = `\u0000`

// readable returns JSON with nul in place of unpaired surrogates and invalid UTF-8.
func readable(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte(nul))
	}
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		n := escapeLength(raw[i:])
		switch {
		case n == 0:
			n = 1
			out = append(out, raw[i])
		case !utf16.IsSurrogate(unit(raw[i:])):
			out = append(out, raw[i:i+n]...)
		case escapeLength(raw[i+n:]) == n && utf16.DecodeRune(unit(raw[i:]), unit(raw[i+n:])) != '\uFFFD':
			out = append(out, raw[i:i+2*n]...)
			n *= 2
		default:
			out = append(out, nul...)
		}
		i += n
	}
	return out
}

// escapeLength returns the length of the escape sequence at the start of raw, or 0 if there is none.
func escapeLength(raw []byte) int {
	switch {
	case len(raw) < 2 || raw[0] != '\\':
		return 0
	case raw[1] == 'u' && len(raw) >= len(nul):
		return len(nul)
	}
	return 2
}

// unit returns the code unit of a \u escape, or 0 for other escapes.
func unit(raw []byte) rune {
	if escapeLength(raw) != len(nul) {
		return 0
	}
	n, err := strconv.ParseUint(string(raw[2:len(nul)]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// refusedExtra returns the extra of a program that did not run because its source is unfit.
func refusedExtra(text string) *extra {
	message, _, _ := strings.Cut(text, "\n")
	return &extra{Outcome: job.CompileError, Message: message}
}

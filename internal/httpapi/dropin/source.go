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

// unfitSource is the error of a program text that no language takes: it has a NUL byte or is too long. Models write such texts,
// so an endpoint answers with a program that failed, and not with a bad request.
type unfitSource struct{ error }

func (e *unfitSource) Unwrap() error { return e.error }

// unfit returns the text in which an err reports an unfit source; ok is false for all other errors.
func unfit(err error) (text string, ok bool) {
	var e *unfitSource
	if !errors.As(err, &e) {
		return "", false
	}
	return "error: " + e.Error() + "\n", true
}

// checkSource judges the text of a program.
func checkSource(field, s string) error {
	if err := checkText(field, s, job.MaxCode); err != nil {
		return &unfitSource{err}
	}
	return nil
}

// nul is what half of a surrogate pair and bytes that are not UTF-8 are taken for. Neither can be in a text, and neither must
// make the whole request unreadable.
const nul = `\u0000`

// readable returns JSON with nul in place of each half of a surrogate pair and of bytes that are not UTF-8.
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

// escapeLength is the length of the escape that JSON begins with; 0: there is none.
func escapeLength(raw []byte) int {
	switch {
	case len(raw) < 2 || raw[0] != '\\':
		return 0
	case raw[1] == 'u' && len(raw) >= len(nul):
		return len(nul)
	}
	return 2
}

// unit is the code unit of an escape; 0 if it is another one.
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

// refusedExtra is the extra of a program that did not run since its text is unfit.
func refusedExtra(text string) *extra {
	message, _, _ := strings.Cut(text, "\n")
	return &extra{Outcome: job.CompileError, Message: message}
}

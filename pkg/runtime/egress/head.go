package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
)

// maxHead is the longest request line with its headers, in bytes.
const maxHead = 32 << 10

// request is a request whose head is unambiguous for all parsers.
type request struct {
	*http.Request
	line  string // the client's destination as written
	hosts []string
}

var errMalformed = errors.New("a malformed request")

// readHead reads a request. net/http is lenient, and two differently lenient parsers make request
// smuggling possible. So readHead first checks that the head conforms to RFC 9112. The error for a
// malformed head describes the problem; other errors are about the connection.
func readHead(r *bufio.Reader) (*request, error) {
	head, err := headBytes(r)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	req := &request{}
	if req.line, err = checkLine(lines[0]); err != nil {
		return req, err
	}
	if req.hosts, err = checkFields(lines[1:]); err != nil {
		return req, err
	}
	// The body stays in r: the parser reads the head, then r.
	parsed, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), r)))
	if err != nil {
		return req, errMalformed
	}
	req.Request = parsed
	return req, nil
}

// headBytes reads a whole head from r.
func headBytes(r *bufio.Reader) ([]byte, error) {
	for seen := 0; ; {
		if _, err := r.Peek(seen + 1); err == bufio.ErrBufferFull {
			return nil, errors.New("a head of more than 32Ki")
		} else if err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		have, _ := r.Peek(r.Buffered())
		from := max(0, seen-3) // new bytes, and the possible start of a line end before them
		if i := bytes.Index(have[from:], []byte("\r\n\r\n")); i >= 0 {
			head := bytes.Clone(have[:from+i+4])
			_, err := r.Discard(len(head))
			return head, err
		}
		if bytes.Contains(have[from:], []byte("\n\n")) {
			return nil, errMalformed
		}
		seen = len(have)
	}
}

// checkLine returns the target of a request line.
func checkLine(line string) (string, error) {
	method, rest, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	switch {
	case !ok, !ok2, !token(method), target == "", strings.ContainsFunc(line, func(c rune) bool { return c <= ' ' && c != ' ' || c == 0x7f }):
		return "", errMalformed
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return target, errors.New("a version of HTTP that is not served")
	}
	return target, nil
}

// checkFields checks header lines against the grammar, and requires unambiguous framing of the
// body. It returns the values of Host.
func checkFields(lines []string) (hosts []string, err error) {
	lengths, encodings := 0, 0
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		if !ok || !token(name) { // a space before the colon, or a folded line
			return nil, errors.New("a malformed header")
		}
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, errors.New("control characters in a header")
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "host":
			hosts = append(hosts, value)
		case "content-length":
			lengths++
			if value == "" || strings.Trim(value, "0123456789") != "" {
				return nil, errors.New("a malformed Content-Length")
			}
		case "transfer-encoding":
			encodings++
			if !strings.EqualFold(value, "chunked") {
				return nil, errors.New("an unknown Transfer-Encoding")
			}
		}
	}
	switch {
	case len(hosts) > 1:
		return nil, errors.New("more than one Host")
	case lengths+encodings > 1:
		return nil, errors.New("an ambiguous length of the body")
	}
	return hosts, nil
}

// token reports whether s is a method or the name of a header.
func token(s string) bool {
	const bytes = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && strings.Trim(s, bytes) == ""
}

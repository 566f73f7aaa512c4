package egress

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// FuzzProxy checks that a proxy dials only the one allowed host, for any input. Over plain HTTP that host
// gets one request that is meant for it.
func FuzzProxy(f *testing.F) {
	for _, s := range []string{
		"GET http://ok.example.org/ HTTP/1.1\r\nHost: ok.example.org\r\n\r\n",
		"POST http://ok.example.org/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\n\r\n",
		"POST http://ok.example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n",
		"CONNECT ok.example.org:443 HTTP/1.1\r\nHost: ok.example.org:443\r\n\r\nhello",
		"\x05\x01\x00\x05\x01\x00\x03\x0eok.example.org\x00\x50hello",
		"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50",
		"GET http://inside.example.org/ HTTP/1.1\r\n\r\n", "GET http://[::ffff:127.0.0.1]/ HTTP/1.1\r\n\r\n",
		"GET http://ok.example.org/ HTTP/1.1\r\nHost: ok.example.org\r\nConnection: x, host\r\nX: y\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	allowed := rules(f, "ok.example.org:*", "inside.example.org:*")
	known := names{"ok.example.org": "8.8.8.8", "inside.example.org": "10.0.0.1"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got bytes.Buffer
		dials := 0
		p := New(Config{Rules: allowed, Resolve: known.resolve, Idle: 5 * time.Second,
			Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
				if dials++; to.Addr() != netip.MustParseAddr("8.8.8.8") || dials > 1 {
					t.Errorf("dial %d of %s", dials, to)
				}
				return &sink{got: &got}, nil
			}})
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() { defer close(done); p.serve(theirs) }()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_ = ours.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, _ = ours.Write(raw)
		_ = ours.Close()
		<-done
		r := p.Close()
		if dials > 0 && len(r.Attempts) == 0 {
			t.Error("a connection that is on no list")
		}
		if len(r.Attempts) == 1 && r.Attempts[0].Protocol == "http" && dials == 1 {
			oneRequest(t, got.Bytes())
		}
	})
}

// oneRequest fails if a host got anything but (the beginning of) one request.
func oneRequest(t *testing.T, sent []byte) {
	r := bufio.NewReader(bytes.NewReader(sent))
	req, err := http.ReadRequest(r)
	if err != nil {
		return // cut short: the client was
	}
	if host, _, _ := strings.Cut(req.Host, ":"); host != "ok.example.org" {
		t.Errorf("the request is for %q", req.Host)
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("%q follows the request", rest)
	}
}

// sink is a host that listens, and then answers.
type sink struct {
	net.Conn
	got *bytes.Buffer
}

func (s *sink) Read(p []byte) (int, error)         { return 0, io.EOF }
func (s *sink) Write(p []byte) (int, error)        { return s.got.Write(p) }
func (s *sink) Close() error                       { return nil }
func (s *sink) SetDeadline(time.Time) error        { return nil }
func (s *sink) SetReadDeadline(time.Time) error    { return nil }
func (s *sink) SetWriteDeadline(t time.Time) error { return nil }

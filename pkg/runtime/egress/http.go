package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// http serves one request per connection. It ignores bytes after the body.
func (c *client) http() {
	req, err := readHead(c.r)
	if err != nil {
		if req != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			line := ""
			if req != nil {
				line = req.line
			}
			c.answer(http.StatusBadRequest, c.refuse("http", line, err.Error()))
		}
		return
	}
	if req.Method == http.MethodConnect {
		c.httpConnect(req)
	} else {
		c.httpPlain(req)
	}
}

func (c *client) httpConnect(req *request) {
	t, err := parseAuthority(req.line, 0)
	if err == nil {
		err = sameHost(req.hosts, t, 443)
	}
	if err == nil && (req.ContentLength > 0 || len(req.TransferEncoding) > 0) {
		err = errors.New("a CONNECT with a body")
	}
	if err != nil {
		c.answer(http.StatusBadRequest, c.refuse("connect", req.line, err.Error()))
		return
	}
	up, no := c.open("connect", t)
	if no != nil {
		c.answer(status(no), no)
		return
	}
	defer up.Close()
	if _, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		c.tunnel(up)
	}
}

// httpPlain forwards one request and its response, both rewritten.
func (c *client) httpPlain(req *request) {
	t, err := plainTarget(req)
	if err != nil {
		c.answer(http.StatusBadRequest, c.refuse("http", req.line, err.Error()))
		return
	}
	up, no := c.open("http", t)
	if no != nil {
		c.answer(status(no), no)
		return
	}
	defer up.Close()
	defer context.AfterFunc(c.proxy.ctx, func() { _ = up.Close() })()
	_ = c.conn.SetDeadline(time.Time{})
	last := &atomic.Int64{}
	near := &lively{Conn: c.pass, idle: c.proxy.cfg.Idle, last: last}
	far := &lively{Conn: up, idle: c.proxy.cfg.Idle, last: last}
	near.touch()
	c.r.Reset(io.MultiReader(c.bufferedCopy(), near)) // the body has the same time limit
	c.exchange(req, t, near, far)
}

// bufferedCopy returns a copy of the client's bytes after the head.
func (c *client) bufferedCopy() io.Reader {
	have, _ := c.r.Peek(c.r.Buffered())
	return strings.NewReader(string(have))
}

// plainTarget reads an absolute http URI and checks Host against it.
func plainTarget(req *request) (target, error) {
	u := req.URL
	switch {
	case strings.HasPrefix(req.line, "/") || req.line == "*":
		return target{}, errors.New("not an absolute URI: this is a proxy")
	case u.Scheme != "http":
		return target{}, errors.New("a URI that is not http: use CONNECT for others")
	case u.User != nil:
		return target{}, errors.New("a name or a password in the URI")
	case u.Opaque != "" || u.Host == "":
		return target{}, errors.New("a missing host")
	}
	t, err := parseAuthority(u.Host, 80)
	if err != nil {
		return target{}, err
	}
	return t, sameHost(req.hosts, t, 80)
}

// sameHost returns an error if the Host header, if any, differs from t.
func sameHost(hosts []string, t target, defaultPort uint16) error {
	if len(hosts) == 0 {
		return nil
	}
	if said, err := parseAuthority(hosts[0], defaultPort); err != nil || said.host() != t.host() ||
		said.port != t.port && strings.Contains(hosts[0], ":") && !strings.HasSuffix(hosts[0], "]") {
		return errors.New("a Host that differs from the target")
	}
	return nil
}

// exchange sends the request and returns the response to the client.
func (c *client) exchange(req *request, t target, near, far net.Conn) {
	forward(req.Request, t)
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(near, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return
		}
	}
	req.Header.Del("Expect")
	sent := make(chan error, 1)
	go func() { sent <- req.Write(far) }()
	if resp, err := response(far, req.Request); err != nil {
		c.say(http.StatusBadGateway, &refusal{Failed, "the host did not answer with HTTP"})
	} else {
		resp.Close = true
		dropHopByHop(resp.Header)
		if !req.ProtoAtLeast(1, 1) {
			resp.TransferEncoding = nil // the end of the connection ends the body
		}
		_ = resp.Write(near)
		_ = resp.Body.Close()
	}
	_ = far.Close() // makes pending sends fail
	c.linger(sent)
}

// response reads the final response after interim ones. The host may cooperate with the job, so the
// head has a limit to protect our memory.
func response(far io.Reader, req *http.Request) (*http.Response, error) {
	limit := &io.LimitedReader{R: far, N: 2 * maxHead}
	r := bufio.NewReader(limit)
	for range 10 {
		resp, err := http.ReadResponse(r, req)
		if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, errMalformed
		}
		if resp.StatusCode >= 200 {
			limit.N = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errMalformed
}

// forward turns req into a request to the host t on its own connection.
func forward(req *http.Request, t target) {
	dropHopByHop(req.Header)
	req.Close, req.Trailer = true, nil
	req.Host = t.String()
	if t.port == 80 {
		req.Host = strings.TrimSuffix(req.Host, ":80")
	}
	req.URL.Host = req.Host
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "") // otherwise net/http adds its own
	}
}

func dropHopByHop(h http.Header) {
	for _, list := range h.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Upgrade"} {
		h.Del(name)
	}
}

func status(no *refusal) int {
	if no.decision == Failed {
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

// answer sends the reason of a refusal to the program and ends the connection.
func (c *client) answer(code int, no *refusal) {
	c.say(code, no)
	done := make(chan error)
	close(done)
	c.linger(done)
}

func (c *client) say(code int, no *refusal) {
	body := fmt.Sprintf("assay: network %s\n", no)
	_ = c.conn.SetWriteDeadline(time.Now().Add(headTime))
	_, _ = fmt.Fprintf(c.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(body), body)
}

// lingerTime is how long a client may continue to send ignored data. Closing at once would reset
// the connection, and the client would lose the response.
const lingerTime = time.Second

// linger ends a connection after a response, when sent yields, because the client may still be
// reading.
func (c *client) linger(sent <-chan error) {
	_ = closeWrite(c.conn)
	give := time.NewTimer(lingerTime)
	defer give.Stop()
	select {
	case <-sent:
		_ = c.conn.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.conn, 1<<20)
	case <-give.C:
		_ = c.conn.Close()
		<-sent
	}
}

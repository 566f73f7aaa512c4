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

// http serves one request. There is no second one on the same connection:
// what follows a body is nobody's.
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

// httpPlain passes one request on, and its answer back, both written anew.
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
	c.r.Reset(io.MultiReader(c.bufferedCopy(), near)) // the body is under the same clock
	c.exchange(req, t, near, far)
}

// bufferedCopy is what the client sent after the head, in memory of its own.
func (c *client) bufferedCopy() io.Reader {
	have, _ := c.r.Peek(c.r.Buffered())
	return strings.NewReader(string(have))
}

// plainTarget reads an absolute http URI, and holds Host to it.
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

// sameHost says whether the Host header, if there is one, means t.
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

// exchange sends the request and the answer.
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
			resp.TransferEncoding = nil // the end of the connection is the end of the body
		}
		_ = resp.Write(near)
		_ = resp.Body.Close()
	}
	_ = far.Close() // what is still being sent fails
	c.linger(sent)
}

// response reads the answer that is not an interim one. The host may be in league
// with the job: the head of an answer has a limit, or it would fill our memory.
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

// forward makes req one for the host t, on a connection of its own.
func forward(req *http.Request, t target) {
	dropHopByHop(req.Header)
	req.Close, req.Trailer = true, nil
	req.Host = t.String()
	if t.port == 80 {
		req.Host = strings.TrimSuffix(req.Host, ":80")
	}
	req.URL.Host = req.Host
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "") // or net/http adds its own
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

// answer tells the program why it does not get through, and ends the connection.
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

// lingerTime is how long a client may go on sending what nobody will read. To
// close at once would reset the connection, and the answer with it.
const lingerTime = time.Second

// linger ends a connection after an answer, when sent yields: something may
// still be reading from it.
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

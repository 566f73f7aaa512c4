package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Proxy is the network access of one job.
type Proxy struct {
	cfg     Config
	meter   meter
	journal journal

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	places chan struct{} // one for each open connection
	wg     sync.WaitGroup
}

// New returns a proxy, which Start starts.
func New(c Config) *Proxy {
	c = c.withDefaults()
	p := &Proxy{cfg: c, meter: meter{max: c.MaxBytes}, journal: journal{max: c.MaxAttempts}, places: make(chan struct{}, c.MaxConns)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Start serves on l until Close. It closes l.
func (p *Proxy) Start(l net.Listener) { p.wg.Go(func() { p.accept(l) }) }

func (p *Proxy) accept(l net.Listener) {
	stop := context.AfterFunc(p.ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	for {
		select {
		case p.places <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		if !p.rest() {
			return
		}
		conn, err := l.Accept()
		p.cfg.Toll.Request(connCost)
		if err != nil && p.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			<-p.places
			if !p.wait(10 * time.Millisecond) { // a client that left before acceptance, or a lack of descriptors
				return
			}
			continue
		}
		if err != nil {
			return
		}
		p.wg.Go(func() {
			defer func() { <-p.places }()
			p.serve(conn)
		})
	}
}

// rest waits until the job's ration allows more work for it. It returns false after Close.
func (p *Proxy) rest() bool {
	for {
		d := p.cfg.Toll.Delay(time.Now())
		if d <= 0 {
			return p.ctx.Err() == nil
		}
		if !p.wait(d) {
			return false
		}
	}
}

// wait waits for this time. It returns false after Close.
func (p *Proxy) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// Close ends every connection and returns the report.
func (p *Proxy) Close() Report {
	p.cancel()
	p.wg.Wait()
	return p.Report()
}

// Report returns the report up to now.
func (p *Proxy) Report() Report {
	r := p.journal.report()
	r.Sent, r.Received = p.meter.sent.Load(), p.meter.received.Load()
	r.Exceeded = p.meter.exceeded.Load()
	return r
}

// serve serves one client. The first byte selects the protocol.
func (p *Proxy) serve(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(p.ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(headTime))
	paid := p.paid(conn)
	c := &client{proxy: p, conn: paid, pass: toll.Conn(conn, p.cfg.Toll, false), r: bufio.NewReaderSize(paid, maxHead)}
	first, err := c.r.Peek(1)
	if err != nil {
		return
	}
	if first[0] == socksVersion {
		c.socks()
	} else {
		c.http()
	}
}

// client is a connection from the job.
type client struct {
	proxy *Proxy
	conn  net.Conn // for requests, which the ration delays
	pass  net.Conn // the same, for data between the program and its host
	r     *bufio.Reader
}

// refusal is why the proxy did not try, or did not succeed.
type refusal struct {
	decision Decision
	reason   string
}

func (r *refusal) Error() string { return string(r.decision) + ": " + r.reason }

// refuse records a malformed or forbidden request.
func (c *client) refuse(protocol, host, reason string) *refusal {
	c.proxy.journal.add(Attempt{Protocol: protocol, Host: written(host), Decision: Refused, Reason: reason})
	return &refusal{Refused, reason}
}

// open connects to t and records the result.
func (c *client) open(protocol string, t target) (*upstream, *refusal) {
	p := c.proxy
	a := Attempt{Protocol: protocol, Host: t.host(), Port: t.port}
	conn, to, no := p.connect(t)
	if no != nil {
		a.Decision, a.Reason = no.decision, no.reason
		p.journal.add(a)
		return nil, no
	}
	a.Decision, a.Address = Allowed, to
	return &upstream{Conn: toll.Conn(conn, p.cfg.Toll, false), entry: p.journal.add(a), meter: &p.meter}, nil
}

// connect checks t, resolves it once, and dials a checked address.
func (p *Proxy) connect(t target) (net.Conn, netip.Addr, *refusal) {
	if p.meter.full() {
		p.meter.exceeded.Store(true)
		return nil, netip.Addr{}, &refusal{Refused, errBytes.Error()}
	}
	addrs, no := p.addresses(t)
	if no != nil {
		return nil, netip.Addr{}, no
	}
	for _, a := range addrs {
		ctx, cancel := context.WithTimeout(p.ctx, dialTime)
		conn, err := p.cfg.Dial(ctx, netip.AddrPortFrom(a, t.port))
		cancel()
		p.cfg.Toll.Request(dialCost)
		if err == nil {
			return conn, a, nil
		}
	}
	return nil, netip.Addr{}, &refusal{Failed, "cannot connect"}
}

// addresses returns the allowed addresses of t.
func (p *Proxy) addresses(t target) ([]netip.Addr, *refusal) {
	if t.addr.IsValid() {
		if why := p.cfg.judge(t.addr, t.port, true); why != "" {
			return nil, &refusal{Refused, why}
		}
		return []netip.Addr{t.addr}, nil
	}
	if why := p.cfg.judgeName(t.name, t.port); why != "" {
		return nil, &refusal{Refused, why}
	}
	if !p.meter.lookUp(t.name) {
		return nil, &refusal{Refused, errBytes.Error()}
	}
	ctx, cancel := context.WithTimeout(p.ctx, resolveTime)
	defer cancel()
	found, err := p.cfg.Resolve(ctx, t.name)
	p.cfg.Toll.Request(lookUpCost)
	if err != nil || len(found) == 0 {
		return nil, &refusal{Failed, "cannot resolve the name"}
	}
	var good []netip.Addr
	var no *refusal
	for _, a := range found[:min(len(found), maxAddrs)] {
		if why := p.cfg.judge(a, t.port, false); why != "" {
			no = &refusal{Refused, why + ", where the name leads"}
			continue
		}
		good = append(good, a.Unmap())
	}
	if len(good) == 0 {
		return nil, no
	}
	return good, nil
}

// tunnel copies bytes in both directions until both end, both are idle for long, or the limit of
// bytes is reached.
func (c *client) tunnel(up *upstream) {
	defer context.AfterFunc(c.proxy.ctx, func() { _ = up.Close() })()
	_ = c.pass.SetDeadline(time.Time{})
	last := &atomic.Int64{}
	near := &lively{Conn: c.pass, idle: c.proxy.cfg.Idle, last: last}
	far := &lively{Conn: up, idle: c.proxy.cfg.Idle, last: last}
	near.touch()
	var wg sync.WaitGroup
	wg.Go(func() { pass(far, io.MultiReader(c.buffered(), near), near, far) })
	pass(near, far, near, far)
	wg.Wait()
}

// buffered returns bytes that the client sent early.
func (c *client) buffered() io.Reader { return io.LimitReader(c.r, int64(c.r.Buffered())) }

// pass copies one direction. At its end it closes the receiver's side. After a failure it also ends
// the other direction.
func pass(to *lively, from io.Reader, ends ...*lively) {
	// Avoid the fast paths of net, which would not count.
	_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		for _, e := range ends {
			_ = e.Close()
		}
	}
}

package grade

import (
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/poll"
)

// clock measures a grading's time for its limits. This is the time since its start, without
//   - the time that its programs waited for cores
//   - the time to create and end its sandboxes
//   - the time in which the programs wait for the worker
//
// So a verdict does not depend on the host's load. Only the worker reads the clock, and no message
// of a sandbox changes it.
//
// A moment is a reading of the clock. Only one goroutine may use it.
type clock struct {
	began  time.Time
	waits  *runtime.Waits       // of all sandboxes
	used   func() time.Duration // the least time in which two sandboxes can have used their CPU time
	paused time.Duration        // part of waits: for sandboxes
	waited time.Duration        // waits at the last look
	looked time.Time
	halted time.Time            // when the clock was halted
	resume func() time.Duration // ends the halt; nil: the clock runs
}

// lookEvery is the maximum age of a look from which a limit starts to count.
const lookEvery = 100 * time.Millisecond

func newClock(p *policy.Policy, cpu *runtime.CPUBudget) clock {
	now, cores := time.Now(), time.Duration(max(math.Ceil(p.CPU), 1))
	return clock{began: now, waits: new(runtime.Waits), used: func() time.Duration { return (p.CPUTime.D() - cpu.Left()) / (2 * cores) }, looked: now}
}

// now returns the moment as of the last look. Simultaneous waits of two sandboxes count twice, so
// there is a lower bound.
func (c *clock) now() time.Duration {
	passed := time.Since(c.began)
	if c.resume != nil {
		passed = c.halted.Sub(c.began)
	}
	return max(passed-c.waited, c.used())
}

// look returns the current moment after reading the programs' waits.
func (c *clock) look() time.Duration {
	halted := c.resume != nil
	c.proceed()
	c.waited, c.looked = c.waits.Total(), time.Now()
	if halted {
		c.halt()
	}
	return c.now()
}

// past reports whether a moment is over.
func (c *clock) past(until time.Duration) bool { return c.now() > until && c.look() > until }

// halt stops the clock, and the clocks of programs that share its waits, until proceed is called.
func (c *clock) halt() {
	if c.resume == nil {
		c.halted = time.Now()
		c.resume = c.stand()
	}
}

// proceed ends a halt, if any.
func (c *clock) proceed() {
	if c.resume == nil {
		return
	}
	stood := c.resume()
	c.resume = nil
	c.paused += stood
	c.waited += stood
}

// recent returns now from a recent look, because a look takes longer than a short case.
func (c *clock) recent() time.Duration {
	if time.Since(c.looked) >= lookEvery {
		return c.look()
	}
	return c.now()
}

// stand stops the clocks of all programs that share its waits until resume is called. resume
// returns the duration. Any goroutine may call it, repeatedly.
func (c *clock) stand() (resume func() time.Duration) {
	since := time.Now()
	done := c.waits.Follow(func() time.Duration { return time.Since(since) })
	return sync.OnceValue(func() time.Duration {
		stood := time.Since(since)
		done(stood)
		return stood
	})
}

// pause excludes the time until resume is called from the grading's and from all programs that run
// meanwhile. On a busy host it may take longer to create a sandbox than the time of the program
// that waits for it.
func (c *clock) pause() (resume func()) {
	if c.resume != nil { // it stands already
		return func() {}
	}
	end := c.stand()
	return func() {
		stood := end()
		c.paused += stood
		c.waited += stood
	}
}

// skip excludes a time in the past in the same way, when nothing else ran.
func (c *clock) skip(d time.Duration) {
	c.waits.Pause(d)
	c.paused += d
	c.waited += d
}

// charge adds the time of another grading and its waits.
func (c *clock) charge(wall, waited time.Duration) {
	c.began = c.began.Add(-wall)
	c.waits.Pause(waited)
	c.look()
}

// patient reads from a sandbox until a moment.
type patient struct {
	net.Conn
	clock *clock
	until time.Duration
}

// Read implements io.Reader. After the moment the error is os.ErrDeadlineExceeded.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.wait(p.until - p.clock.now()); err != nil {
		return 0, err
	}
	for {
		n, err := p.Conn.Read(b)
		if n > 0 || !late(err) {
			return n, err
		}
		left := p.until - p.clock.look()
		if left <= 0 && !p.ready() {
			return n, err
		}
		left = max(left, time.Millisecond) // it arrived while the worker had no core
		if err := p.wait(left); err != nil {
			return 0, err
		}
	}
}

// ready reports whether data is available.
func (p *patient) ready() bool {
	c, ok := p.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	return err == nil && poll.Ready(raw)
}

func (p *patient) wait(d time.Duration) error { return p.SetReadDeadline(time.Now().Add(d)) }

// leftFrame sends a sandbox its remaining time in seconds.
type leftFrame struct {
	Op   string  `json:"op"`
	Left float64 `json:"left"`
}

// leastLeft is the least time that the worker grants a sandbox until its next request. A program
// that waits for a core makes slow progress, and a case may have few frames.
const leastLeft = 100 * time.Millisecond

// tell sends the remaining time to a sandbox whose own clock is over. The sandbox's clock includes
// waits. A late answer stays late: the worker decides that by its own clock.
func (g *grading) tell(b *sandbox, until time.Duration) error {
	left := until - g.look()
	if left > 0 {
		left = max(left, leastLeft)
	}
	return b.send(leftFrame{Op: "left", Left: max(left, 0).Seconds()})
}

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

// clock measures the time of a grading, which its limits bound: the time that passed since it began, without
//   - the time that its programs waited for cores,
//   - the time that it takes to make and to end their sandboxes,
//   - the time in which the worker owes the programs a frame, and not they one to the worker.
//
// So a verdict does not depend on what else a host does. Only the worker reads the clock: no message of a sandbox changes it.
//
// A moment is a reading of the clock. One goroutine uses it.
type clock struct {
	began  time.Time
	waits  *runtime.Waits       // of all of its sandboxes
	used   func() time.Duration // the least time in which two sandboxes can have used the CPU time that they did
	paused time.Duration        // part of waits: for sandboxes
	waited time.Duration        // what waits was at the last look
	looked time.Time
	halted time.Time            // since when the clock stands
	resume func() time.Duration // ends that; nil: the clock runs
}

// lookEvery is how old a look may be by which a limit begins to count.
const lookEvery = 100 * time.Millisecond

func newClock(p *policy.Policy, cpu *runtime.CPUBudget) clock {
	now, cores := time.Now(), time.Duration(max(math.Ceil(p.CPU), 1))
	return clock{began: now, waits: new(runtime.Waits), used: func() time.Duration { return (p.CPUTime.D() - cpu.Left()) / (2 * cores) }, looked: now}
}

// now is the moment as of the last look. The waits of two sandboxes at the same time count twice, so there is a least time.
func (c *clock) now() time.Duration {
	passed := time.Since(c.began)
	if c.resume != nil {
		passed = c.halted.Sub(c.began)
	}
	return max(passed-c.waited, c.used())
}

// look is now, after a look at what the programs wait for.
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

// halt stops the clock, and those of the programs that share its waits, until proceed is called.
func (c *clock) halt() {
	if c.resume == nil {
		c.halted = time.Now()
		c.resume = c.stand()
	}
}

// proceed ends a halt, if there is one.
func (c *clock) proceed() {
	if c.resume == nil {
		return
	}
	stood := c.resume()
	c.resume = nil
	c.paused += stood
	c.waited += stood
}

// recent is now by a look that is not old. To look takes longer than a short case.
func (c *clock) recent() time.Duration {
	if time.Since(c.looked) >= lookEvery {
		return c.look()
	}
	return c.now()
}

// stand has the clocks of all that share its waits stand until resume is called, which returns for how long that was. It may be
// called by any goroutine, and again.
func (c *clock) stand() (resume func() time.Duration) {
	since := time.Now()
	done := c.waits.Follow(func() time.Duration { return time.Since(since) })
	return sync.OnceValue(func() time.Duration {
		stood := time.Since(since)
		done(stood)
		return stood
	})
}

// pause counts what passes until resume is called as no part of the grading's time, nor of any program's that runs meanwhile:
// on a busy host a sandbox may take longer to make than the one that waits for it has.
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

// skip counts what has passed likewise, while nothing else ran.
func (c *clock) skip(d time.Duration) {
	c.waits.Pause(d)
	c.paused += d
	c.waited += d
}

// charge adds to the grading's time what passed in another one, and what that waited of it.
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

// Read implements io.Reader. The error is os.ErrDeadlineExceeded when the moment has come.
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
		left = max(left, time.Millisecond) // it came while the worker had no core
		if err := p.wait(left); err != nil {
			return 0, err
		}
	}
}

// ready reports whether there is something to read.
func (p *patient) ready() bool {
	c, ok := p.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	return err == nil && poll.Ready(raw)
}

func (p *patient) wait(d time.Duration) error { return p.SetReadDeadline(time.Now().Add(d)) }

// leftFrame tells a sandbox how much time there still is, in seconds.
type leftFrame struct {
	Op   string  `json:"op"`
	Left float64 `json:"left"`
}

// tell answers a sandbox whose own clock says that a moment has come: it knows nothing of
// what others wait for.
func (g *grading) tell(b *sandbox, until time.Duration) error {
	return b.send(leftFrame{Op: "left", Left: max(until-g.look(), 0).Seconds()})
}

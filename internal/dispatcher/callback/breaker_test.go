package callback

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newBreaker(10 * time.Minute)
	try := func(host string, ok bool) (tried bool, wait time.Duration) {
		wait, tried = b.enter(host, now)
		if tried {
			b.leave(host, now, ok)
		}
		return tried, wait
	}
	for range breakAfter {
		if tried, _ := try("down", false); !tried {
			t.Fatal("open too early")
		}
	}
	if tried, wait := try("down", false); tried || wait != firstBreak {
		t.Errorf("after %d failures: tried %v, %v to wait", breakAfter, tried, wait)
	}
	if tried, _ := try("up", true); !tried {
		t.Error("another host has to wait")
	}
	now = now.Add(firstBreak)
	if _, ok := b.enter("down", now); !ok {
		t.Error("not tried after the wait")
	}
	if _, ok := b.enter("down", now); ok {
		t.Error("two tries at once after the wait")
	}
	b.leave("down", now, false)
	if _, wait := try("down", false); wait != 2*firstBreak {
		t.Errorf("the next wait is %v, want %v", wait, 2*firstBreak)
	}
	now = now.Add(2 * firstBreak)
	try("down", true)
	for range 3 {
		if tried, _ := try("down", true); !tried {
			t.Error("a host that answers again has to wait")
		}
	}
}

// TestBlackHole checks that a host that accepts connections and does not answer costs a few tries. Another host of the
// tenant gets its callback.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hole.Close() })
	var stuck []job.ID
	for range 40 {
		stuck = append(stuck, f.done(job.Callback{URL: "http://" + hole.Addr().String()}))
	}
	fine := newReceiver(t, status(200))
	id := f.done(job.Callback{URL: fine.URL})
	f.start(f.sender(func(c *Config) { c.Lanes, c.Timeout, c.First = 4, 100*time.Millisecond, time.Hour }))
	f.until(id, "delivered", delivered)
	sent := 0
	for _, b := range stuck {
		d := f.until(b, "failed", func(d *job.Delivery) bool { return d.LastError != "" })
		if !strings.HasPrefix(d.LastError, "not tried: ") {
			sent++
		}
	}
	if sent < breakAfter || sent > breakAfter+4 {
		t.Errorf("%d of 40 were sent, want %d and what was under way", sent, breakAfter)
	}
}

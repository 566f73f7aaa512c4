package callback

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/store"
)

// TestRetriedUntilAnswered checks that a receiver that fails twice gets the same delivery three times, each signed
// for its own time.
func TestRetriedUntilAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rc := newReceiver(t, status(500, 429, 204))
	id := f.done(job.Callback{URL: rc.URL + "/done?x=1", SecretRef: "hook"})
	f.start(f.sender(nil))
	d := f.until(id, "delivered", delivered)
	calls := rc.seen()
	if len(calls) != 3 || d.Tries != 3 || d.LastError != "" {
		t.Fatalf("%d calls, %+v", len(calls), d)
	}
	for _, c := range calls {
		at, err := strconv.ParseInt(c.timestamp, 10, 64)
		if err != nil || c.id != d.ID || c.signature != Signature([]byte(key), c.id, time.Unix(at, 0), c.body) || string(c.body) != string(calls[0].body) {
			t.Errorf("got %+v, want delivery %s, signed", c, d.ID)
		}
		if e := c.event(t); e.Type != "batch.done" || e.Batch.ID != id || e.Batch.Total != 1 || !e.Batch.Done() || e.Batch.EndedAt.IsZero() {
			t.Errorf("event %s", c.body)
		}
	}
}

func TestUnsignedWithoutASecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rc := newReceiver(t, status(200))
	id := f.done(job.Callback{URL: rc.URL})
	f.start(f.sender(nil))
	f.until(id, "delivered", delivered)
	if c := rc.seen()[0]; c.signature != "" || c.id == "" || c.timestamp == "" {
		t.Errorf("got %+v", c)
	}
}

// TestHangingReceiver checks that a hanging receiver costs only one lane, for the timeout of a try.
func TestHangingReceiver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stop := make(chan struct{})
	hangs := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(stop) }) // before the server is closed
	fine := newReceiver(t, status(200))
	stuck := f.done(job.Callback{URL: hangs.URL})
	id := f.done(job.Callback{URL: fine.URL})
	f.start(f.sender(func(c *Config) { c.Lanes, c.Timeout, c.First = 1, 300*time.Millisecond, time.Hour }))
	f.until(id, "delivered", delivered)
	d := f.until(stuck, "failed", func(d *job.Delivery) bool { return d.LastError != "" })
	if delivered(d) || d.LastError != "no answer within 300ms" {
		t.Errorf("got %+v", d)
	}
}

// TestRedirectsAreNotFollowed checks that no redirect is followed, not even to an allowed address.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	inside := newReceiver(t, status(200))
	rc := newReceiver(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
	})
	id := f.done(job.Callback{URL: rc.URL})
	f.start(f.sender(func(c *Config) { c.First = time.Hour }))
	d := f.until(id, "failed", func(d *job.Delivery) bool { return d.LastError != "" })
	if len(inside.seen()) != 0 || d.LastError != "answered 307: redirects are not followed" {
		t.Errorf("%d calls inside, %+v", len(inside.seen()), d)
	}
}

func TestGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := newReceiver(t, status(410))
	down := newReceiver(t, status(503))
	unwanted, hopeless := f.done(job.Callback{URL: gone.URL}), f.done(job.Callback{URL: down.URL})
	f.start(f.sender(func(c *Config) { c.Patience = 200 * time.Millisecond }))
	over := func(d *job.Delivery) bool { return !d.GivenUpAt.IsZero() }
	if d := f.until(unwanted, "given up", over); d.Tries != 1 || !strings.Contains(d.LastError, "410") {
		t.Errorf("of one that is gone: %+v", d)
	}
	if d := f.until(hopeless, "given up", over); delivered(d) || d.LastError != "answered 503" {
		t.Errorf("of one that is down: %+v", d)
	}
}

// TestNeverUnsignedAgainstTheTenantsWill checks that a callback whose secret was deleted is not sent, rather than
// sent unsigned.
func TestNeverUnsignedAgainstTheTenantsWill(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rc := newReceiver(t, status(200))
	id := f.done(job.Callback{URL: rc.URL, SecretRef: "gone"})
	f.start(f.sender(func(c *Config) { c.First = time.Hour }))
	d := f.until(id, "failed", func(d *job.Delivery) bool { return d.LastError != "" })
	if len(rc.seen()) != 0 || !strings.Contains(d.LastError, `the secret "gone" does not exist`) {
		t.Errorf("%d calls, %+v", len(rc.seen()), d)
	}
}

// TestSurvivesItsSender checks that a sender that stops during a try leaves it to the next one at once.
func TestSurvivesItsSender(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	begun := make(chan struct{}, 1)
	rc := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			begun <- struct{}{}
			<-r.Context().Done()
		}
	})
	id := f.done(job.Callback{URL: rc.URL, SecretRef: "hook"})
	stop := f.start(f.sender(nil))
	testenv.Receive(t, "the first call", begun)
	stop()
	f.start(f.sender(nil))
	d := f.until(id, "delivered", delivered)
	if calls := rc.seen(); len(calls) != 2 || calls[0].id != calls[1].id || d.Tries != 2 {
		t.Errorf("%+v, %+v", calls, d)
	}
}

// TestOneSenderAtATime checks that several senders send each callback once.
func TestOneSenderAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rc := newReceiver(t, status(200))
	var ids []job.ID
	for range 30 {
		ids = append(ids, f.done(job.Callback{URL: rc.URL}))
	}
	for range 4 {
		f.start(f.sender(func(c *Config) { c.Lanes = 3 }))
	}
	for _, id := range ids {
		f.until(id, "delivered", delivered)
	}
	if n := len(rc.seen()); n != len(ids) {
		t.Errorf("%d calls for %d batches", n, len(ids))
	}
}

// TestNamesThatLeadInside checks that a name of an internal address is rejected at the dial, even if it resolved to
// another address before.
func TestNamesThatLeadInside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rc := newReceiver(t, status(200))
	u, err := url.Parse(rc.URL)
	if err != nil {
		t.Fatal(err)
	}
	id := f.done(job.Callback{URL: "http://localhost:" + u.Port()})
	s := f.sender(func(c *Config) { c.First = time.Hour; c.Allow = netrule.Rules{} })
	if err := s.Check(t.Context(), "acme", job.Callback{URL: "http://localhost:" + u.Port()}); err != nil {
		t.Fatalf("a name is judged when it is dialled: %v", err)
	}
	f.start(s)
	d := f.until(id, "failed", func(d *job.Delivery) bool { return d.LastError != "" })
	if len(rc.seen()) != 0 || d.LastError != errRefused.Error() {
		t.Errorf("%d calls, %+v", len(rc.seen()), d)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := f.sender(nil)
	for at, want := range map[string]string{
		"http://" + l.Addr().String(): "connection refused",
		"http://no-such-name.invalid": "the host",
	} {
		end, err := s.send(t.Context(), store.CallbackTry{Callback: job.Callback{URL: at}, Tenant: "acme", Batch: f.done(job.Callback{URL: at})})
		if err == nil || end.Delivered || !strings.HasPrefix(end.Error, want) || strings.Contains(end.Error, "127.0.0.1") {
			t.Errorf("%s: %+v, %v, want %q", at, end, err, want)
		}
	}
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	s := &Sender{cfg: Config{}.withDefaults()}
	for tries, want := range map[int][2]time.Duration{
		1: {time.Second, 3 * time.Second}, 4: {10 * time.Second, 22 * time.Second}, 20: {6 * time.Minute, 10 * time.Minute}, 1 << 30: {6 * time.Minute, 10 * time.Minute},
	} {
		if d := s.pause(tries); d < want[0] || d > want[1] {
			t.Errorf("after %d tries %v, want %v", tries, d, want)
		}
	}
}

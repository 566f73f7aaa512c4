package callback

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/store"
)

// Store is the part of the store that a sender needs.
type Store interface {
	store.Callbacks
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
}

// Secrets opens signing secrets; *secret.Keeper implements it.
type Secrets interface {
	// Open returns a tenant's secret; job.ErrNotFound if there is none.
	Open(ctx context.Context, tenant, name string) (string, error)
}

// Config configures a Sender. A zero means the default.
type Config struct {
	Allow    netrule.Rules // special-purpose addresses that may be called
	Every    time.Duration // between checks for due callbacks; default 1s
	Timeout  time.Duration // of a try; default 10s
	First    time.Duration // pause after the first try, about doubled after each; default 2s
	Longest  time.Duration // longest pause; default 10m
	Patience time.Duration // after the end of the batch, until the callback is given up; default 24h
	Lanes    int           // concurrent tries; default 16
	Log      *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Every = cmp.Or(c.Every, time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.First = cmp.Or(c.First, 2*time.Second)
	c.Longest = cmp.Or(c.Longest, 10*time.Minute)
	c.Patience = cmp.Or(c.Patience, 24*time.Hour)
	c.Lanes = cmp.Or(c.Lanes, 16)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Sender sends due callbacks. Any number of senders may run.
type Sender struct {
	cfg     Config
	store   Store
	secrets Secrets
	http    *http.Client
	tries   metric.Int64Counter
	freed   chan struct{} // holds one hint: a lane is free
	taking  sync.Mutex    // held while callbacks are taken
	after   int64         // start of the next take; guarded by taking
	hosts   *breaker

	mu   sync.Mutex
	busy map[string]int // lanes by tenant
}

// New returns a Sender that does nothing until Run.
func New(cfg Config, s Store, secrets Secrets) (*Sender, error) {
	cfg = cfg.withDefaults()
	tries, err := otel.Meter("github.com/assay-run/assay/internal/dispatcher/callback").
		Int64Counter("assay_callback_tries", metric.WithDescription("Attempts to deliver batch callbacks, by result."))
	if err != nil {
		return nil, err
	}
	// create the counters at 0: a counter that first appears above 0 has no rate
	for _, result := range []string{"delivered", "failed", "given_up"} {
		tries.Add(context.Background(), 0, metric.WithAttributes(attribute.String("result", result)))
	}
	return &Sender{cfg: cfg, store: s, secrets: secrets, http: newHTTPClient(cfg.Allow, cfg.Timeout), tries: tries,
		freed: make(chan struct{}, 1), hosts: newBreaker(cfg.Longest), busy: map[string]int{}}, nil
}

// Check checks a callback before its batch is accepted. The error names the field.
func (s *Sender) Check(ctx context.Context, tenant string, c job.Callback) error {
	if err := checkURL(s.cfg.Allow, c.URL); err != nil {
		return err
	}
	if err := s.Room(ctx, tenant); err != nil {
		return err
	}
	if c.SecretRef == "" {
		return nil
	}
	_, err := s.key(ctx, tenant, c.SecretRef)
	var unfit *unfitSecret
	if errors.As(err, &unfit) {
		return job.Invalid("callback.secret_ref", "%v", unfit)
	}
	return err
}

// Room returns job.ErrTooMany for a tenant that has as many open callbacks as it may.
func (s *Sender) Room(ctx context.Context, tenant string) error {
	n, err := s.store.OpenCallbacks(ctx, tenant)
	if err != nil {
		return fmt.Errorf("count open callbacks: %w", err)
	}
	if n >= store.MaxOpenCallbacks {
		return fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("callbacks",
			"the tenant has %d callbacks that are neither delivered nor given up, and %d are the most; submit without one, or when some are over", n, store.MaxOpenCallbacks))
	}
	return nil
}

// unfitSecret is the error for a secret that cannot sign.
type unfitSecret struct{ name, problem string }

func (e *unfitSecret) Error() string { return fmt.Sprintf("the secret %.80q %s", e.name, e.problem) }

func (s *Sender) key(ctx context.Context, tenant, name string) ([]byte, error) {
	value, err := s.secrets.Open(ctx, tenant, name)
	if errors.Is(err, job.ErrNotFound) {
		return nil, &unfitSecret{name, "does not exist; put one at /v1/secrets/NAME"}
	}
	if err != nil {
		return nil, fmt.Errorf("open the secret of a callback: %w", err)
	}
	key, err := keyOf(value)
	if err != nil {
		return nil, &unfitSecret{name, err.Error()}
	}
	return key, nil
}

// Run sends callbacks until ctx ends. It then aborts the current tries and leaves them to the next
// sender.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	var tries sync.WaitGroup
	defer tries.Wait()
	lanes := make(chan struct{}, s.cfg.Lanes)
	for {
		for _, t := range s.take(ctx, cap(lanes)-len(lanes)) {
			lanes <- struct{}{}
			s.occupy(t.Tenant, 1)
			tries.Go(func() {
				tried := s.try(ctx, t)
				s.occupy(t.Tenant, -1)
				<-lanes
				if !tried { // the host's breaker is open: wait for the next tick
					return
				}
				select {
				case s.freed <- struct{}{}:
				default:
				}
			})
		}
		select {
		case <-tick.C:
		case <-s.freed:
		case <-ctx.Done():
			return
		}
	}
}

// share returns the most lanes of one tenant, so that hanging receivers of one do not stop the callbacks of others.
func (s *Sender) share() int { return max(s.cfg.Lanes/2, 1) }

// occupy adds n to the lanes of a tenant.
func (s *Sender) occupy(tenant string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[tenant] += n; s.busy[tenant] == 0 {
		delete(s.busy, tenant)
	}
}

// full returns the tenants that use their share of the lanes, and the fewest lanes that another tenant may still
// take.
func (s *Sender) full() (tenants []string, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room = s.share()
	for tenant, n := range s.busy {
		if n >= s.share() {
			tenants = append(tenants, tenant)
		} else {
			room = min(room, s.share()-n)
		}
	}
	return tenants, room
}

func (s *Sender) take(ctx context.Context, n int) []store.CallbackTry {
	s.taking.Lock()
	defer s.taking.Unlock()
	if n == 0 || ctx.Err() != nil {
		return nil
	}
	// The lease is much longer than a try, even if the secret and the batch are slow to read. The statement ignores a
	// canceled ctx: rows that it took unnoticed would wait for the end of their lease.
	except, share := s.full()
	ts, next, err := s.store.TakeCallbacks(context.WithoutCancel(ctx),
		store.CallbackQuery{N: n, Share: share, Except: except, Lease: s.cfg.Timeout + time.Minute, After: s.after})
	s.after = next
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "callbacks not read", "error", err)
	}
	return ts
}

// settleTime limits the time to record a result. A stopping dispatcher waits for it.
const settleTime = 5 * time.Second

// try makes one try and records its end. If it cannot record it, the try is repeated after the lease; the receiver
// recognizes the id. tried is false if the host's circuit breaker is open and nothing was sent.
func (s *Sender) try(ctx context.Context, t store.CallbackTry) (tried bool) {
	host := hostOf(t.URL)
	wait, tried := s.hosts.enter(host, time.Now())
	end, cause := store.CallbackEnd{Again: wait, Error: "not tried: " + host + " did not answer several times in a row"}, error(nil)
	if tried {
		end, cause = s.send(ctx, t)
		var unanswered *unansweredError
		s.hosts.leave(host, time.Now(), !errors.As(cause, &unanswered) || ctx.Err() != nil)
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	result := "failed"
	switch {
	case ctx.Err() != nil && !end.Delivered:
		s.taking.Lock() // a concurrent take must not find it due and abort it again
		s.taking.Unlock()
		end = store.CallbackEnd{Error: "broken off: the dispatcher was stopped"} // due at once
	case end.Delivered:
		result = "delivered"
		s.cfg.Log.InfoContext(ctx, "callback delivered", "batch", t.Batch, "delivery", t.Delivery, "try", t.Try)
	default:
		end.Again = max(end.Again, s.pause(t.Try))
		end.GivenUp = end.GivenUp || t.Age+end.Again > s.cfg.Patience
		if end.GivenUp {
			result = "given_up"
		}
		s.cfg.Log.WarnContext(ctx, "callback failed", "batch", t.Batch, "delivery", t.Delivery, "try", t.Try, "given_up", end.GivenUp,
			"problem", end.Error, "error", cause)
	}
	s.tries.Add(settle, 1, metric.WithAttributes(attribute.String("result", result)))
	if err := s.store.SettleCallback(settle, t, end); err != nil {
		s.cfg.Log.WarnContext(settle, "outcome of a callback not recorded", "batch", t.Batch, "error", err)
	}
	return tried
}

// pause returns the delay after the given number of tries.
func (s *Sender) pause(tries int) (d time.Duration) {
	b := &backoff.ExponentialBackOff{InitialInterval: s.cfg.First, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: s.cfg.Longest}
	for range min(tries, 64) {
		d = b.NextBackOff()
	}
	return min(d, s.cfg.Longest)
}

// Event is the body of a callback.
type Event struct {
	Type  string     `json:"type"` // batch.done
	Batch *job.Batch `json:"batch"`
}

// unansweredError is a request that the host did not answer.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// send makes the request. The cause is for the log.
func (s *Sender) send(ctx context.Context, t store.CallbackTry) (end store.CallbackEnd, cause error) {
	rq, end, err := s.request(ctx, t)
	if err != nil {
		return end, err
	}
	rs, err := s.http.Do(rq)
	if err != nil {
		return store.CallbackEnd{Error: kindOf(err, s.cfg.Timeout)}, &unansweredError{err}
	}
	defer rs.Body.Close()
	_, _ = io.CopyN(io.Discard, rs.Body, 64<<10) // the answer's content is not stored
	switch code := rs.StatusCode; {
	case code/100 == 2:
		return store.CallbackEnd{Delivered: true}, nil
	case code == http.StatusGone:
		return store.CallbackEnd{GivenUp: true, Error: "answered 410: it does not want to be called any more"}, nil
	case code/100 == 3:
		return store.CallbackEnd{Error: fmt.Sprintf("answered %d: redirects are not followed", code)}, nil
	default:
		return store.CallbackEnd{Error: fmt.Sprintf("answered %d", code), Again: min(retryAfter(rs.Header), s.cfg.Longest)}, nil
	}
}

// request builds one try. The body is the same at every try, because a finished batch does not
// change.
func (s *Sender) request(ctx context.Context, t store.CallbackTry) (*http.Request, store.CallbackEnd, error) {
	var key []byte
	if t.SecretRef != "" {
		var err error
		if key, err = s.key(ctx, t.Tenant, t.SecretRef); err != nil {
			return nil, store.CallbackEnd{Error: "not sent unsigned: " + publicText(err)}, err
		}
	}
	b, err := s.store.Batch(ctx, t.Tenant, t.Batch)
	if err != nil {
		return nil, store.CallbackEnd{Error: "the batch could not be read"}, err
	}
	b.Callback = nil
	body, err := json.Marshal(Event{Type: "batch.done", Batch: b})
	if err != nil {
		return nil, store.CallbackEnd{Error: "the batch could not be encoded"}, err
	}
	if err := checkURL(s.cfg.Allow, t.URL); err != nil { // the operator may have changed the rules
		return nil, store.CallbackEnd{Error: publicText(err)}, err
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return nil, store.CallbackEnd{Error: "the URL cannot be called"}, err
	}
	rq.Header.Set("Content-Type", "application/json")
	rq.Header.Set("User-Agent", "assay-callback/1")
	sign(rq.Header, key, t.Delivery, time.Now(), body)
	return rq, store.CallbackEnd{}, nil
}

// publicText returns the text of an error that the tenant caused. For other errors it returns a
// general text.
func publicText(err error) string {
	var unfit *unfitSecret
	var field *job.FieldError
	switch {
	case errors.As(err, &unfit):
		return unfit.Error()
	case errors.As(err, &field):
		return field.Error()
	}
	return "the secret could not be read"
}

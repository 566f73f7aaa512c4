// Package client is the Go client of Assay's API.
//
// Every call takes a context first and may be made concurrently. A call whose
// outcome is unknown (the connection broke, the server was restarting) is said
// again under the same idempotency key, so nothing is ever submitted twice.
// Errors are the server's own: errors.Is finds
//
//	api.ErrUnauthorized       no token, or an unknown one
//	job.ErrRefused            more than the tenant may
//	job.ErrInvalid            a request that cannot be right; errors.As finds a *job.FieldError
//	api.ErrMethod             an address that does not take such a request
//	api.ErrMismatch           a body that is not what its digest says
//	api.ErrSlow               a body that stood still
//	job.ErrStale              somebody else has changed it since
//	job.ErrKeyUsed            an idempotency key of another request
//	job.ErrConflict           not in this state
//	job.ErrLost               somebody else has it by now
//	job.ErrNotFound           there is none
//	job.ErrGone               there was one
//	job.ErrTooLarge           too many bytes
//	job.ErrTooMany            too many requests, or jobs
//	job.ErrUnavailable        not now, or it does not answer
//	context.DeadlineExceeded  it took too long there
//
// and nothing of these where the server itself failed. What may pass (job.ErrUnavailable, job.ErrTooMany) is tried again
// for as long as WithPatience says. A program that failed is a result, not an error.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/propagation"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// Client talks to one fleet.
type Client struct {
	base     *url.URL
	http     *http.Client
	token    string
	patience time.Duration
	zipped   bool
}

// Option changes a Client.
type Option func(*Client)

// WithToken sends a bearer token. Without one, or with "", New looks for the token that
// "assay dev" keeps for a fleet at that address of this machine.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient uses another HTTP client. It must not have a Timeout: calls
// that wait have none but their context's.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience says for how long after its first failure a call is sent again while
// the server cannot be reached or is not ready; the default is 30 s, 0 is never.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithCompression asks for compressed answers: worth it over a slow line, and else a waste of
// both ends' processors.
func WithCompression() Option { return func(c *Client) { c.zipped = true } }

// New returns a client of the fleet at baseURL, such as http://localhost:8080.
// The error wraps job.ErrInvalid.
func New(baseURL string, opts ...Option) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, job.Invalid("url", "%.100q must be the address of a fleet, such as http://localhost:8080", baseURL)
	}
	c := &Client{base: u, http: &http.Client{}, patience: 30 * time.Second}
	for _, o := range opts {
		o(c)
	}
	if c.token == "" {
		c.token = localToken(u)
	}
	return c, nil
}

// call is one request that can be made several times.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	// body returns the request's body from its beginning; nil: none.
	body func() (io.Reader, error)
	once bool // the body cannot be had again
}

func get(path string, query url.Values) call {
	return call{method: http.MethodGet, path: path, query: query}
}

// post is a call with a JSON body, under a new idempotency key.
func post(path string, query url.Values, v any) (call, error) {
	c := call{method: http.MethodPost, path: path, query: query, header: http.Header{}}
	c.header.Set(api.HeaderIdempotencyKey, string(job.NewID()))
	return c, c.json(v)
}

func (c *call) json(v any) error {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set("Content-Type", api.JSON)
	c.body = func() (io.Reader, error) { return bytes.NewReader(raw), nil }
	return nil
}

// do makes the call until its outcome is known, patience is over or ctx ends. A server
// that says when to come again is taken at its word.
// The caller closes the body of the response, whose status is 2xx.
func (c *Client) do(ctx context.Context, rq call) (*http.Response, error) {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 100*time.Millisecond, 3*time.Second
	var failed time.Time // first; what the server was asked to wait before is no failure
	resp, err := backoff.Retry(ctx, func() (*http.Response, error) {
		resp, err := c.try(ctx, rq)
		if err == nil {
			return resp, nil
		}
		if failed.IsZero() {
			failed = time.Now()
		}
		var later *backoff.RetryAfterError
		wait := time.Duration(0)
		if errors.As(err, &later) {
			wait = later.Duration
		}
		if rq.once || time.Since(failed)+wait >= c.patience || !passing(err) {
			err = backoff.Permanent(err)
		}
		return nil, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(0))
	if err == nil {
		return resp, nil
	}
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		err = permanent.Unwrap()
	}
	return nil, fmt.Errorf("%s %s: %w", rq.method, rq.path, err)
}

// passing reports whether saying the same again may help.
func passing(err error) bool {
	return (errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrTooMany)) && !errors.Is(err, job.ErrInvalid)
}

// try makes the call once.
func (c *Client) try(ctx context.Context, rq call) (*http.Response, error) {
	var body io.Reader
	if rq.body != nil {
		b, err := rq.body()
		if err != nil {
			return nil, fmt.Errorf("read request body: %w", err)
		}
		body = b
	}
	u := *c.base
	u.Path, u.RawPath = c.base.Path+rq.path, ""
	u.RawQuery = rq.query.Encode()
	req, err := http.NewRequestWithContext(ctx, rq.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", job.ErrInvalid, err)
	}
	for name, values := range rq.header {
		req.Header[name] = values
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if !c.zipped { // http.Transport would ask for it, and unpack it unseen
		req.Header.Set("Accept-Encoding", "identity")
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unknown(ctx, err)
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, askedToWait(resp, problem(resp))
}

// told is an error that comes with the time when saying the same again may help.
type told struct {
	error
	again *backoff.RetryAfterError
}

func (e *told) Unwrap() []error { return []error{e.error, e.again} }

// askedToWait adds to err what Retry-After says, in seconds or as a date. Many may have been
// told the same, so it takes up to a quarter more.
func askedToWait(resp *http.Response, err error) error {
	text := resp.Header.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, bad := strconv.Atoi(text); bad == nil {
		wait = time.Duration(min(max(seconds, 0), 24*60*60)) * time.Second
	} else if date, bad := http.ParseTime(text); bad == nil {
		wait = max(time.Until(date), 0)
	}
	if wait == 0 {
		return err
	}
	wait += rand.N(wait/4 + 1)
	return &told{err, &backoff.RetryAfterError{Duration: wait}}
}

// unknown describes a call that got no answer. The URL in the library's error
// says nothing new.
func (c *Client) unknown(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return fmt.Errorf("%w: %s does not answer: %w", job.ErrUnavailable, c.base.Host, err)
}

// problem turns an answer that is not 2xx into the error that the server meant.
func problem(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // cut short, it is still worth showing
	p := api.ProblemDetails{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode)}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t == api.Problem {
		if err := json.Unmarshal(raw, &p); err == nil {
			return p.Err()
		}
	}
	// Not ours: a proxy, or another program altogether.
	p.Type, p.Detail = "", fmt.Sprintf("HTTP %d %s", resp.StatusCode, p.Title)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		p.Status = http.StatusServiceUnavailable
	}
	return p.Err()
}

// json makes the call and decodes its answer into out, which may be nil.
func (c *Client) json(ctx context.Context, rq call, out any) (*http.Response, error) {
	resp, err := c.do(ctx, rq)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if out == nil {
		return resp, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, fmt.Errorf("%s %s: %w: read the answer: %w", rq.method, rq.path, job.ErrUnavailable, err)
	}
	return resp, nil
}

// turn is how long one long poll of a longer wait is: proxies cut silent
// connections.
const turn = 50 * time.Second

func waiting(wait time.Duration) url.Values {
	q := url.Values{}
	if wait > 0 {
		q.Set("wait", min(wait, turn).String())
	}
	return q
}

// Package client is the Go client of Assay's API.
//
// Every call takes a context first and may be made concurrently. A call with an unknown outcome
// (the connection broke, the server was restarting) is retried with the same idempotency key, so
// nothing is submitted twice. Errors are the server's; errors.Is finds
//
//	api.ErrUnauthorized       no valid token
//	job.ErrRefused            above the tenant's limits
//	job.ErrInvalid            a wrong request; errors.As finds a *job.FieldError
//	api.ErrMethod             a method that the address does not support
//	api.ErrMismatch           a body that does not match its digest
//	api.ErrSlow               a body that stopped
//	job.ErrStale              changed by another client since
//	job.ErrKeyUsed            an idempotency key of another request
//	job.ErrConflict           not in this state
//	job.ErrLost               another client or worker has it now
//	job.ErrNotFound           does not exist
//	job.ErrGone               no longer exists
//	job.ErrErased             an idempotency key of an erased job or batch
//	job.ErrTooLarge           too many bytes
//	job.ErrTooMany            too many requests, or jobs
//	job.ErrUnavailable        temporarily unavailable, or unreachable
//	context.DeadlineExceeded  a timeout in the server
//
// and none of these after an internal error of the server. Temporary errors (job.ErrUnavailable,
// job.ErrTooMany) are retried for as long as WithPatience allows. A failed program is a result, not
// an error.
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

// Client is a client of one fleet.
type Client struct {
	base     *url.URL
	http     *http.Client
	token    string
	patience time.Duration
	zipped   bool
}

// Option changes a Client.
type Option func(*Client)

// WithToken sends a bearer token. With "", New looks for the token that "assay dev" stores for a
// local fleet at this address.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient sets the HTTP client. It must not have a Timeout, because calls with a wait only
// end with their context.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience sets how long a call is retried after its first failure while the server is
// unreachable or not ready. The default is 30 s; 0 disables retries.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithCompression requests compressed responses. This helps on slow networks and otherwise wastes
// CPU time.
func WithCompression() Option { return func(c *Client) { c.zipped = true } }

// New returns a client of the fleet at baseURL, such as http://localhost:8080.
// The error wraps job.ErrInvalid.
func New(baseURL string, opts ...Option) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, job.Invalid("url", "%.100q must be the URL of a fleet, such as http://localhost:8080", baseURL)
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

// call is one request that can be sent several times.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	// body returns the request's body from its start. Nil: no body.
	body func() (io.Reader, error)
	once bool // the body can be read only once
}

func get(path string, query url.Values) call {
	return call{method: http.MethodGet, path: path, query: query}
}

// post returns a call with a JSON body and a new idempotency key.
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

// do sends the call until its outcome is known, patience is over or ctx ends. It obeys the server's
// Retry-After. The caller closes the body of the response, whose status is 2xx.
func (c *Client) do(ctx context.Context, rq call) (*http.Response, error) {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 100*time.Millisecond, 3*time.Second
	var failed time.Time // first failure; waits that the server requested do not count
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

// passing reports whether a retry may help.
func passing(err error) bool {
	return (errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrTooMany)) && !errors.Is(err, job.ErrInvalid)
}

// try sends the call once.
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
	if !c.zipped { // http.Transport would request compression by itself and decompress
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
	return nil, withRetryAfter(resp, problem(resp))
}

// retryError is an error with the time of the next useful retry.
type retryError struct {
	error
	again *backoff.RetryAfterError
}

func (e *retryError) Unwrap() []error { return []error{e.error, e.again} }

// withRetryAfter adds the time from Retry-After (seconds or a date) to err. It adds up to a quarter,
// to spread the retries of many clients.
func withRetryAfter(resp *http.Response, err error) error {
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
	return &retryError{err, &backoff.RetryAfterError{Duration: wait}}
}

// unknown describes a call without a response. It drops the URL from the library's error.
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

// problem converts a response that is not 2xx to the server's error.
func problem(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a truncated body is still useful
	p := api.ProblemDetails{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode)}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t == api.Problem {
		if err := json.Unmarshal(raw, &p); err == nil {
			return p.Err()
		}
	}
	// Not from the API: from a proxy, or from another program.
	p.Type, p.Detail = "", fmt.Sprintf("HTTP %d %s", resp.StatusCode, p.Title)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		p.Status = http.StatusServiceUnavailable
	}
	return p.Err()
}

// json sends the call and decodes its response into out, which may be nil.
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

// turn is the length of one long poll of a longer wait, because proxies cut idle connections.
const turn = 50 * time.Second

func waiting(wait time.Duration) url.Values {
	q := url.Values{}
	if wait > 0 {
		q.Set("wait", min(wait, turn).String())
	}
	return q
}

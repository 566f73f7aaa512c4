package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// maxAnswer is the most that is read of one answer of the API: a job whose result is as large as results may be.
const maxAnswer = 48 << 20

// call is one request of the API.
type call struct {
	method, path string
	query        url.Values
	body         any // sent as JSON; nil: none
	header       http.Header
}

// caller makes calls of the API in this process as whoever has the token.
type caller struct {
	api   http.Handler
	token string
	from  string // where the visitor is, as the API is to know it
}

// json makes a call, and decodes the answer into out, which may be nil.
func (c caller) json(ctx context.Context, rq call, out any) error {
	got, err := c.do(ctx, rq)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(got.body.Bytes(), out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", rq.method, rq.path, err)
	}
	return nil
}

// do makes a call. An answer that is not 2xx is the error that it says.
func (c caller) do(ctx context.Context, rq call) (*answer, error) {
	var body io.Reader = http.NoBody
	if rq.body != nil {
		raw, err := json.Marshal(rq.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, rq.method, "http://in-process", body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	r.URL.Path, r.URL.RawQuery = rq.path, rq.query.Encode()
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), c.from
	for name, values := range rq.header {
		r.Header[name] = values
	}
	c.authorize(r)
	if rq.body != nil {
		r.Header.Set("Content-Type", api.JSON)
	}
	r.Header.Set("Accept-Encoding", "identity")
	w := &answer{header: http.Header{}, status: http.StatusOK}
	if err := w.serve(c.api, r); err != nil {
		return nil, err
	}
	if w.status >= 300 {
		return nil, w.problem()
	}
	return w, nil
}

// pass has the API answer r itself at another path, as whoever has the token.
func (c caller) pass(w http.ResponseWriter, r *http.Request, path string, query url.Values) {
	r2 := r.Clone(r.Context())
	r2.URL = &url.URL{Path: path, RawQuery: query.Encode()}
	r2.RequestURI = r2.URL.RequestURI()
	r2.Header.Del("Cookie")
	c.authorize(r2)
	c.api.ServeHTTP(w, r2)
}

func (c caller) authorize(r *http.Request) {
	r.Header.Del("Authorization")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
}

// answer is what the API answered, up to maxAnswer.
type answer struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
	long   bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.status, a.begun = status, true
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	if a.body.Len()+len(b) > maxAnswer {
		a.long = true
		return 0, job.ErrTooLarge
	}
	return a.body.Write(b)
}

// serve has h answer. A handler that breaks its answer off panics.
func (a *answer) serve(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if err = fmt.Errorf("%w: the answer was cut short", job.ErrUnavailable); a.long {
				err = fmt.Errorf("%w: the answer has more than %d MiB: ask the API for a part of it", job.ErrTooLarge, maxAnswer>>20)
			}
		}
	}()
	h.ServeHTTP(a, r)
	if a.long {
		return fmt.Errorf("%w: the answer has more than %d MiB: ask the API for a part of it", job.ErrTooLarge, maxAnswer>>20)
	}
	return nil
}

// problem is the error that an answer says.
func (a *answer) problem() error {
	if a.status == http.StatusRequestedRangeNotSatisfiable {
		return errRange
	}
	p := api.ProblemDetails{Status: a.status, Title: http.StatusText(a.status)}
	_ = json.Unmarshal(a.body.Bytes(), &p) // what is no document has its status
	return p.Err()
}

// errRange is a part of a file that is not there.
var errRange = errors.New("there is no such part")

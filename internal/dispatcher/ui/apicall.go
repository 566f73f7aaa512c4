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

// maxAnswer is the most bytes of a response: a job with the largest result.
const maxAnswer = 48 << 20

// apiCall is one request of the API.
type apiCall struct {
	Method, Path string
	Query        url.Values
	Body         any // sent as JSON; nil for none
	Header       http.Header
}

// apiCaller calls an API with a token.
type apiCaller struct {
	API   http.Handler
	Token string // empty for none
	From  string // the visitor's address, for the API
}

// JSON makes a call and decodes the response into out, which may be nil.
func (c apiCaller) JSON(ctx context.Context, rq apiCall, out any) error {
	got, err := c.Do(ctx, rq)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(got.Body.Bytes(), out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", rq.Method, rq.Path, err)
	}
	return nil
}

// Do makes a call. It turns a status of 300 or more into an error.
func (c apiCaller) Do(ctx context.Context, rq apiCall) (*apiAnswer, error) {
	var body io.Reader = http.NoBody
	if rq.Body != nil {
		raw, err := json.Marshal(rq.Body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, rq.Method, "http://localhost", body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	r.URL.Path, r.URL.RawQuery = rq.Path, rq.Query.Encode()
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), c.From
	for name, values := range rq.Header {
		r.Header[name] = values
	}
	c.authorize(r)
	if rq.Body != nil {
		r.Header.Set("Content-Type", api.JSON)
	}
	r.Header.Set("Accept-Encoding", "identity")
	w := &apiAnswer{header: http.Header{}, status: http.StatusOK}
	if err := w.serve(c.API, r); err != nil {
		return nil, err
	}
	if w.status >= 300 {
		return nil, w.problem()
	}
	return w, nil
}

// Pass lets the API serve r at another path, with the token.
func (c apiCaller) Pass(w http.ResponseWriter, r *http.Request, path string, query url.Values) {
	r2 := r.Clone(r.Context())
	r2.URL = &url.URL{Path: path, RawQuery: query.Encode()}
	r2.RequestURI = r2.URL.RequestURI()
	r2.Header.Del("Cookie")
	c.authorize(r2)
	c.API.ServeHTTP(w, r2)
}

func (c apiCaller) authorize(r *http.Request) {
	r.Header.Del("Authorization")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
}

// apiAnswer is a response of the API, up to maxAnswer bytes.
type apiAnswer struct {
	Body   bytes.Buffer
	header http.Header
	status int
	begun  bool
	long   bool
}

// Header implements http.ResponseWriter.
func (a *apiAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *apiAnswer) WriteHeader(status int) {
	if !a.begun {
		a.status, a.begun = status, true
	}
}

// Write implements http.ResponseWriter.
func (a *apiAnswer) Write(b []byte) (int, error) {
	a.begun = true
	if a.Body.Len()+len(b) > maxAnswer {
		a.long = true
		return 0, job.ErrTooLarge
	}
	return a.Body.Write(b)
}

// serve calls h. A handler panics to abort a response.
func (a *apiAnswer) serve(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if err = fmt.Errorf("%w: the response was cut short", job.ErrUnavailable); a.long {
				err = fmt.Errorf("%w: the response has more than %d MiB; request a part of it from the API", job.ErrTooLarge, maxAnswer>>20)
			}
		}
	}()
	h.ServeHTTP(a, r)
	if a.long {
		return fmt.Errorf("%w: the response has more than %d MiB; request a part of it from the API", job.ErrTooLarge, maxAnswer>>20)
	}
	return nil
}

// problem returns the error of a response.
func (a *apiAnswer) problem() error {
	if a.status == http.StatusRequestedRangeNotSatisfiable {
		return errRange
	}
	p := api.ProblemDetails{Status: a.status, Title: http.StatusText(a.status)}
	_ = json.Unmarshal(a.Body.Bytes(), &p) // other responses have only their status
	return p.Err()
}

// errRange reports a range outside the file.
var errRange = errors.New("there is no such part")

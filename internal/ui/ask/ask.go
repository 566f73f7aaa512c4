// Package ask makes requests of an API that is in the same process.
package ask

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

// Call is one request of the API.
type Call struct {
	Method, Path string
	Query        url.Values
	Body         any // sent as JSON; nil: none
	Header       http.Header
}

// Caller makes calls of an API as whoever has the token.
type Caller struct {
	API   http.Handler
	Token string // empty: none
	From  string // where the visitor is, as the API is to know it
}

// JSON makes a call, and decodes the answer into out, which may be nil.
func (c Caller) JSON(ctx context.Context, rq Call, out any) error {
	got, err := c.Do(ctx, rq)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(got.Body.Bytes(), out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", rq.Method, rq.Path, err)
	}
	return nil
}

// Do makes a call. An answer that is not 2xx is the error that it says.
func (c Caller) Do(ctx context.Context, rq Call) (*Answer, error) {
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
	w := &Answer{header: http.Header{}, status: http.StatusOK}
	if err := w.serve(c.API, r); err != nil {
		return nil, err
	}
	if w.status >= 300 {
		return nil, w.problem()
	}
	return w, nil
}

// Pass has the API answer r itself at another path, as whoever has the token.
func (c Caller) Pass(w http.ResponseWriter, r *http.Request, path string, query url.Values) {
	r2 := r.Clone(r.Context())
	r2.URL = &url.URL{Path: path, RawQuery: query.Encode()}
	r2.RequestURI = r2.URL.RequestURI()
	r2.Header.Del("Cookie")
	c.authorize(r2)
	c.API.ServeHTTP(w, r2)
}

func (c Caller) authorize(r *http.Request) {
	r.Header.Del("Authorization")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
}

// Answer is what the API answered, up to maxAnswer.
type Answer struct {
	Body   bytes.Buffer
	header http.Header
	status int
	begun  bool
	long   bool
}

// Header are the headers of the answer.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if !a.begun {
		a.status, a.begun = status, true
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(b []byte) (int, error) {
	a.begun = true
	if a.Body.Len()+len(b) > maxAnswer {
		a.long = true
		return 0, job.ErrTooLarge
	}
	return a.Body.Write(b)
}

// serve has h answer. A handler that breaks its answer off panics.
func (a *Answer) serve(h http.Handler, r *http.Request) (err error) {
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
func (a *Answer) problem() error {
	if a.status == http.StatusRequestedRangeNotSatisfiable {
		return ErrRange
	}
	p := api.ProblemDetails{Status: a.status, Title: http.StatusText(a.status)}
	_ = json.Unmarshal(a.Body.Bytes(), &p) // what is no document has its status
	return p.Err()
}

// ErrRange is a part of a file that is not there.
var ErrRange = errors.New("there is no such part")

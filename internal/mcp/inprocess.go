package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

type authorizationKey struct{}

// withAuthorization returns a ctx whose API calls use this Authorization header.
func withAuthorization(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, authorizationKey{}, header)
}

// inProcess passes a client's requests to a handler in the same process, with the identity in their
// context. Answers are streamed.
type inProcess struct{ handler http.Handler }

// errCut reports an answer that its handler aborted.
var errCut = errors.New("the answer was cut short")

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr, served.Host = r.URL.RequestURI(), "in-process", r.URL.Host
	served.Header.Del("Authorization")
	if header, _ := r.Context().Value(authorizationKey{}).(string); header != "" {
		served.Header.Set("Authorization", header)
	}
	if served.Body == nil {
		served.Body = http.NoBody
	}
	out, in := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: in, begun: make(chan struct{})}
	go w.serve(p.handler, served)
	select {
	case <-w.begun:
	case <-r.Context().Done(): // the handler then ends by itself
		_ = out.Close()
		return nil, r.Context().Err()
	}
	if w.cut {
		return nil, errCut
	}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: out, ContentLength: -1, Request: r}, nil
}

// pipeWriter is the answer to one request.
type pipeWriter struct {
	header, sent http.Header
	status       int
	cut          bool // before it began
	body         *io.PipeWriter
	once         sync.Once
	begun        chan struct{}
}

func (w *pipeWriter) serve(h http.Handler, r *http.Request) {
	defer func() {
		_ = r.Body.Close()
		if recover() != nil { // already logged where it happened
			w.begin(0)
			_ = w.body.CloseWithError(errCut)
			return
		}
		w.begin(http.StatusOK)
		_ = w.body.Close()
	}()
	h.ServeHTTP(w, r)
}

// begin sends the status and headers, the first time. Status 0 is no answer.
func (w *pipeWriter) begin(status int) {
	w.once.Do(func() {
		w.status, w.cut, w.sent = status, status == 0, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Header() http.Header    { return w.header }
func (w *pipeWriter) WriteHeader(status int) { w.begin(status) }
func (w *pipeWriter) Flush()                 { w.begin(http.StatusOK) }

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.body.Write(b)
}

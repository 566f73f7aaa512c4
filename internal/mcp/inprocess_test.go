package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestInProcess checks that requests to a handler in the same process behave as over a connection: with the caller's
// authorization, a body, a streamed answer, and a cut one.
func TestInProcess(t *testing.T) {
	t.Parallel()
	more, gone := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("As", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		<-more
		_, _ = io.WriteString(w, "b")
	})
	mux.HandleFunc("GET /empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /cut", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /none", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("GET /wait", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(gone) })
	c := &http.Client{Transport: inProcess{mux}}
	ask := func(ctx context.Context, method, path, body string) (*http.Response, error) {
		rq, err := http.NewRequestWithContext(ctx, method, "http://x"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		rq.Header.Set("Authorization", "not the caller's")
		return c.Do(rq)
	}
	resp, err := ask(withAuthorization(t.Context(), "Bearer me"), "POST", "/echo", "body")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "body" || resp.StatusCode != http.StatusTeapot || resp.Header.Get("As") != "Bearer me" {
		t.Errorf("%s, %v, %d, %v", text, err, resp.StatusCode, resp.Header)
	}
	if resp, err = ask(t.Context(), "GET", "/slow", ""); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, one); err != nil || one[0] != 'a' {
		t.Error(err)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "b" {
		t.Errorf("%s, %v", rest, err)
	}
	if resp, err = ask(t.Context(), "GET", "/empty", ""); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v", err)
	}
	if resp, err = ask(t.Context(), "GET", "/cut", ""); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(resp.Body); !errors.Is(err, errCut) || string(text) != "a" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := ask(t.Context(), "GET", "/none", ""); !errors.Is(err, errCut) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ctx, "GET", "/wait", ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-gone
}

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheck: it waits for the API, runs the job once however long it takes, and says what
// became of it.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result string
		says   string // in the output or the error
		fails  bool
	}{
		"works":  {`{"outcome":"succeeded","stdout":{"text":"42\n"}}`, "a job ran: 42", false},
		"fails":  {`{"outcome":"lost","message":"nothing works here"}`, "lost: nothing works here", true},
		"refuse": {"", "401", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ready, runs int
			keys := map[string]bool{}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/readyz":
					if ready++; ready == 1 {
						w.WriteHeader(http.StatusServiceUnavailable)
					}
				case r.Header.Get("Authorization") != "Bearer t0ken" || c.result == "":
					w.WriteHeader(http.StatusUnauthorized)
				default:
					keys[r.Header.Get("Idempotency-Key")] = true
					if runs++; runs == 1 {
						w.WriteHeader(http.StatusAccepted)
						return
					}
					_, _ = io.WriteString(w, c.result)
				}
			}))
			defer srv.Close()
			var out bytes.Buffer
			asked, err := check(t.Context(), []string{"check", srv.URL, "--job={}", "--token=t0ken"}, &out)
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			if !asked || (err != nil) != c.fails || !strings.Contains(text, c.says) {
				t.Errorf("%v, %q, want %q", err, text, c.says)
			}
			if c.result != "" && (runs != 2 || len(keys) != 1 || keys[""]) {
				t.Errorf("asked %d times under %v, want twice under one key", runs, keys)
			}
		})
	}
	var out bytes.Buffer
	if _, err := check(t.Context(), []string{"check", "http://127.0.0.1:1", "--patience=10ms"}, &out); err == nil {
		t.Error("nobody is there, and all is well")
	}
}

package client_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type transport func(r *http.Request) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r), nil }

// TestRetryAfter checks that the client sends a call again when the server asks for it, not before. If that
// is beyond the client's patience, the call fails at once.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const refusal = `{"type":"https://assay.run/problems/too-many","title":"Too many","status":429,"detail":"too many: 5 requests a second"}`
	for name, c := range map[string]struct {
		header   func() string
		status   int
		body     string
		patience time.Duration
		least    time.Duration
		fails    error
	}{
		"seconds":         {func() string { return "7" }, 429, refusal, time.Minute, 7 * time.Second, nil},
		"date":            {func() string { return time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat) }, 429, refusal, time.Minute, 8 * time.Second, nil},
		"of a proxy":      {func() string { return "3" }, 503, "busy", time.Minute, 3 * time.Second, nil},
		"nonsense":        {func() string { return "soon" }, 429, refusal, time.Minute, 0, nil},
		"before now":      {func() string { return "-5" }, 429, refusal, time.Minute, 0, nil},
		"beyond patience": {func() string { return strconv.Itoa(3600) }, 429, refusal, time.Minute, 0, job.ErrTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				fleet, err := client.New("http://fleet", client.WithPatience(c.patience), client.WithHTTPClient(&http.Client{Transport: transport(func(*http.Request) *http.Response {
					calls++
					if calls > 1 {
						return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {api.JSON}}, Body: io.NopCloser(strings.NewReader(`{}`))}
					}
					h := http.Header{"Retry-After": {c.header()}}
					if c.body == refusal {
						h.Set("Content-Type", api.Problem)
					}
					return &http.Response{StatusCode: c.status, Header: h, Body: io.NopCloser(strings.NewReader(c.body))}
				})}))
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, err = fleet.Batch(t.Context(), id, 0)
				took := time.Since(start)
				if c.fails != nil {
					if !errors.Is(err, c.fails) || took != 0 || calls != 1 || strings.Contains(err.Error(), "retry after") {
						t.Errorf("%v after %v and %d calls", err, took, calls)
					}
					return
				}
				if err != nil || took < c.least || took > c.least*5/4+2*time.Second {
					t.Errorf("%v after %v, want %v and up to a quarter more", err, took, c.least)
				}
			})
		})
	}
}

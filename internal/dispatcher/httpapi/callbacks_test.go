package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/callback"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// withCallbacks returns a fleet that accepts callbacks. internal/dispatcher/callback tests sending them.
func withCallbacks(t *testing.T) *fleet {
	t.Helper()
	return newFleet(t, func(c *parts) {
		s, err := callback.New(callback.Config{}, c.Store, c.Secrets.(callback.Secrets))
		if err != nil {
			t.Fatal(err)
		}
		c.Callbacks = s
	})
}

func TestCallbackOfABatch(t *testing.T) {
	t.Parallel()
	f := withCallbacks(t)
	f.want(http.StatusNoContent, nil, "PUT", "/v1/secrets/hook", `{"value":"0123456789abcdef"}`)
	want := job.Callback{URL: "https://example.org/done", SecretRef: "hook"}
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"callback":{"url":"https://example.org/done","secret_ref":"hook"},"jobs":[`+python("a")+`]}`)
	streamed, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{Callback: &want}, strings.NewReader(lines(2100)))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*job.Batch{&b, streamed} {
		if d := b.Callback; d == nil || (job.Callback{URL: d.URL, SecretRef: d.SecretRef}) != want || d.ID == "" || d.Tries != 0 {
			t.Errorf("callback %+v", d)
		}
	}
}

func TestCallbackThatCannotBe(t *testing.T) {
	t.Parallel()
	f := withCallbacks(t)
	for body, field := range map[string]string{
		`{"url":"http://169.254.169.254/"}`: "callback.url",
		`{"url":"gopher://example.org/"}`:   "callback.url",
		`{}`:                                "callback.url",
		`{"url":"https://example.org/","secret_ref":"nothing"}`: "callback.secret_ref",
		`{"url":"https://example.org/","method":"GET"}`:         "callback.method",
		`"https://example.org/"`:                                "callback",
	} {
		for _, do := range []func() (*http.Response, string){
			func() (*http.Response, string) {
				return f.do("POST", "/v1/batches", `{"callback":`+body+`,"jobs":[`+python("a")+`]}`)
			},
			func() (*http.Response, string) {
				return f.do("POST", "/v1/batches?callback="+url.QueryEscape(body), lines(1), "Content-Type", api.NDJSON)
			},
		} {
			if resp, text := do(); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, `"field":"`+field+`"`) {
				t.Errorf("%s: %d %s, want %s", body, resp.StatusCode, text, field)
			}
		}
	}
	f.empty()
}

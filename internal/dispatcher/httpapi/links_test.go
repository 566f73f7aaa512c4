package httpapi_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/token"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := f.outputs(func(_ store.Claimed, put func(string, int, string) *job.StoredOutput, r *job.Result) {
		o := put("stdout", object.WholeOutput, "<script>alert(1)</script>")
		r.Stdout = job.Output{Text: "out", Bytes: 25, Stored: o}
		r.Stderr = job.Output{Text: "<b>err</b>", Bytes: 10}
		r.Steps = []job.StepResult{{Outcome: job.Succeeded, Stdout: job.Output{Text: "of a step", Bytes: 9}}}
	})
	at := "/v1/jobs/" + string(id) + "/links"
	link := func(body string) string {
		t.Helper()
		var l api.Link
		f.want(http.StatusCreated, &l, "POST", at, body)
		if left := time.Until(l.ExpiresAt); left < 50*time.Minute || left > 7*24*time.Hour {
			t.Errorf("%s: a link for %v", body, left)
		}
		return l.URL
	}
	for body, want := range map[string]string{
		`{"stream": "stdout", "expires_in": "168h"}`: "<script>alert(1)</script>",
		`{"stream": "stderr"}`:                       "<b>err</b>",
		`{"stream": "stdout", "step": 0}`:            "of a step",
	} {
		resp, got := f.do("GET", link(body), "")
		if resp.StatusCode != 200 || got != want {
			t.Errorf("%s leads to %d %q", body, resp.StatusCode, got)
		}
		h := resp.Header
		if !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s is served with %v", body, h)
		}
	}
	for _, bad := range []string{
		`{}`, `{"path": "/a", "stream": "stdout"}`, `{"stream": "stdin"}`, `{"stream": "stdout", "expires_in": "169h"}`, `{"stream": "stdout", "expires_in": "-1s"}`,
		`{"stream": "stdout", "expires_in": "1ms"}`, `{"path": "/a", "step": 0}`, `{"stream": "stdout", "step": 99}`, `{"stream": "stdout", "job": "x"}`,
	} {
		f.want(http.StatusUnprocessableEntity, nil, "POST", at, bad)
	}
	for _, gone := range []string{`{"path": "/none"}`, `{"stream": "stdout", "step": 1}`} {
		f.want(http.StatusNotFound, nil, "POST", at, gone)
	}
	f.want(http.StatusNotFound, nil, "POST", "/v1/jobs/"+string(job.NewID())+"/links", `{"stream": "stdout"}`)
	good := link(`{"stream": "stderr"}`)
	f.want(http.StatusNotFound, nil, "GET", good[:len(good)-2]+"AA", "")
	key, err := f.store.SigningKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	where := map[string]any{"t": "default", "j": id, "s": "stderr"}
	f.want(http.StatusGone, nil, "GET", "/v1/links/"+token.Keeper{Key: key}.Sign("link", where, -time.Second), "")
	f.want(http.StatusNotFound, nil, "GET", "/v1/links/"+token.Keeper{Key: key}.Sign("other", where, time.Hour), "")
	where["t"] = "somebody else"
	f.want(http.StatusNotFound, nil, "GET", "/v1/links/"+token.Keeper{Key: key}.Sign("link", where, time.Hour), "")
}

// A link to an artifact works without a token on a fleet that requires tokens.
func TestLinkNeedsNoToken(t *testing.T) {
	t.Parallel()
	tokens, err := identity.ReadTokens("secret=default:admin")
	if err != nil {
		t.Fatal(err)
	}
	var log testenv.Buffer
	f := newFleet(t, func(c *parts) {
		c.Auth, c.Log = tokens, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	bearer := []string{"Authorization", "Bearer secret"}
	var res job.Result
	f.want(200, &res, "POST", "/v1/run?wait=20s", python("artifact"), bearer...)
	if len(res.Artifacts) == 0 {
		t.Fatalf("no artifact: %+v", res)
	}
	at := "/v1/jobs/" + string(res.ID) + "/links"
	f.want(http.StatusUnauthorized, nil, "POST", at, `{"path": "`+res.Artifacts[0].Path+`"}`)
	var l api.Link
	f.want(http.StatusCreated, &l, "POST", at, `{"path": "`+res.Artifacts[0].Path+`"}`, bearer...)
	resp, got := f.do("GET", l.URL, "")
	if resp.StatusCode != 200 || int64(len(got)) != res.Artifacts[0].Bytes || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %q %v", resp.StatusCode, got, resp.Header)
	}
	f.want(http.StatusUnauthorized, nil, "GET", "/v1/jobs/"+string(res.ID)+"/artifacts"+res.Artifacts[0].Path, "")
	if said := log.String(); !strings.Contains(said, "path=/v1/links/...") || strings.Contains(said, strings.TrimPrefix(l.URL, "/v1/links/")) {
		t.Errorf("the log has the link, or nothing of it: %s", said)
	}
}

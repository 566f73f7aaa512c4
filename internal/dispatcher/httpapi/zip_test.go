package httpapi_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// JSON is compressed for clients that accept it. The content is the same for all clients. Events are sent one by one,
// and responses with lengths and tags stay uncompressed.
func TestAnswersAreCompressedForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(200)+python("artifact")))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range f.client().Results(t.Context(), b.ID, true) {
		if err != nil {
			t.Fatal(err)
		}
	}
	ask := func(path, accept string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", accept)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(raw)
	}
	results := "/v1/batches/" + string(b.ID) + "/results"
	plain, whole := ask(results, "identity")
	if plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("who did not ask got %v", plain.Header)
	}
	packed, small := ask(results, "br, gzip;q=0.5")
	if packed.Header.Get("Content-Encoding") != "gzip" || len(small) > len(whole)/3 || packed.Header.Get(api.HeaderComplete) != plain.Header.Get(api.HeaderComplete) || packed.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%d of %d bytes with %v", len(small), len(whole), packed.Header)
	}
	z, err := gzip.NewReader(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != whole {
		t.Errorf("%d bytes unpacked, %d plain: %v", len(text), len(whole), err)
	}
	for path, accept := range map[string]string{
		results + "?limit=1000": "gzip;q=0", // explicitly not accepted
		"/healthz":              "gzip",     // too small
		"/v1/batches/" + string(b.ID) + "/events": "gzip",
	} {
		if resp, _ := ask(path, accept); resp.Header.Get("Content-Encoding") != "" || resp.StatusCode != http.StatusOK {
			t.Errorf("%s with %s: %d %v", path, accept, resp.StatusCode, resp.Header)
		}
	}
	// Errors keep their status.
	if resp, _ := ask("/v1/jobs/x", "gzip"); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an error is %d", resp.StatusCode)
	}
}

// Compression does not delay events.
func TestEventsComeOneByOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1)))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+"/v1/batches/"+string(b.ID)+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(first, "event: batch") {
		t.Errorf("%q %v", first, err)
	}
	f.runner.release()
}

// The Go client requests compression if configured, and reads the same data.
func TestClientWithCompression(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c, err := client.New(f.url, client.WithCompression())
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: strings.Repeat("a", 5000)}}})
	if err != nil || len(r.Stdout.Text) != 5000 {
		t.Errorf("%+v %v", r, err)
	}
}

// Costs of compression: clients that do not accept it ("plain") cost one header check more than no compression at all
// ("bare").
func BenchmarkZipping(b *testing.B) {
	body := []byte(strings.Repeat(`{"capability":"memory","requested":"256Mi","applied":"256Mi","mechanism":"cgroup memory","level":"kernel"},`, 40))
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.JSON)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
	}
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		accept string
	}{"bare": {h, ""}, "plain": {web.Zipping("GET /v1/jobs/{id}", h), "identity"}, "gzip": {web.Zipping("GET /v1/jobs/{id}", h), "gzip"}} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept-Encoding", c.accept)
			for b.Loop() {
				c.serve(httptest.NewRecorder(), r)
			}
		})
	}
}

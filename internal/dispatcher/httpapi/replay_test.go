package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// TestKeyOfWhatWasErased: the same POST after the erasure gets 410 and runs nothing.
func TestKeyOfWhatWasErased(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for path, body := range map[string]string{"/v1/jobs": python("x"), "/v1/run": python("y"), "/v1/batches": `{"jobs":[` + python("z") + `]}`} {
		key := "of " + path
		resp, raw := f.do("POST", path, body, "Idempotency-Key", key)
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, raw)
		}
		id, _, _ := strings.Cut(raw[strings.Index(raw, `"id":"`)+6:], `"`)
		kind := "/v1/jobs/"
		if path == "/v1/batches" {
			kind = "/v1/batches/"
			f.want(http.StatusOK, nil, "GET", kind+id+"?wait=10s", "")
		} else {
			f.want(http.StatusOK, nil, "GET", kind+id+"/result?wait=10s", "")
		}
		f.want(http.StatusOK, nil, "DELETE", kind+id, "")
		var p api.ProblemDetails
		f.want(http.StatusGone, &p, "POST", path, body, "Idempotency-Key", key)
		if !strings.HasSuffix(p.Type, "/erased") || !strings.Contains(p.Detail, id) {
			t.Errorf("%s under the key of what was erased: %+v", path, p)
		}
	}
	f.empty()
}

// slowBody is a body whose end arrives when the test lets it.
type slowBody struct {
	io.Reader
	goOn <-chan struct{}
	rest io.Reader
}

func (s *slowBody) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err != io.EOF {
		return n, err
	}
	<-s.goOn
	return s.rest.Read(p)
}

// TestTwoPostsUnderOneKey: while a batch arrives under a key, a different body under that key is rejected and does not
// affect it. The same body takes over, gets the batch's id, and runs once.
func TestTwoPostsUnderOneKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	body := lines(3000)
	sum := sha256.Sum256([]byte(body))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	goOn, first := make(chan struct{}), make(chan int, 1)
	nine := len(body) * 9 / 10
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", f.url+"/v1/batches", &slowBody{strings.NewReader(body[:nine]), goOn, strings.NewReader(body[nine:])})
		req.Header.Set("Content-Type", ndjson)
		req.Header.Set("Content-Digest", digest)
		req.Header.Set("Idempotency-Key", "one")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			first <- 0
			return
		}
		resp.Body.Close()
		first <- resp.StatusCode
	}()
	for deadline := time.Now().Add(20 * time.Second); ; { // until the store has the open batch
		_, batches, err := f.store.Waiting(t.Context(), "default")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d batches, %v", batches, err)
		}
		if batches == 1 {
			break
		}
	}
	var p api.ProblemDetails
	f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/batches", lines(2), "Content-Type", ndjson, "Idempotency-Key", "one")
	if !strings.HasSuffix(p.Type, "/key-used") {
		t.Errorf("another body: %+v", p)
	}
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", body, "Content-Type", ndjson, "Content-Digest", digest, "Idempotency-Key", "one")
	if b.ID == "" || b.Total != 3000 {
		t.Errorf("the second: %+v", b)
	}
	close(goOn)
	if status := <-first; status != http.StatusConflict {
		t.Errorf("the first is answered %d, want %d", status, http.StatusConflict)
	}
	if page, err := f.store.Batches(t.Context(), "", "", 10); err != nil || len(page) != 1 || page[0].ID != b.ID {
		t.Errorf("batches %+v, %v", page, err)
	}
}

package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// jobLines returns n jobs, named by their numbers from first on.
func jobLines(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name": "%d", "program": {"python": {"code": "ok"}}}`+"\n", first+i)
	}
	return b.String()
}

func (f *fleet) openUpload(body string, header ...string) api.Upload {
	f.t.Helper()
	var u api.Upload
	f.want(http.StatusCreated, &u, "POST", "/v1/uploads", body, header...)
	return u
}

func TestUpload(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	body := `{"name": "big", "labels": {"run": "1"}, "defaults": {"labels": {"a": "b"}}}`
	u := f.openUpload(body, api.HeaderIdempotencyKey, "k")
	if again := f.openUpload(body, api.HeaderIdempotencyKey, "k"); again.ID != u.ID {
		t.Errorf("the same key opened %s and %s", u.ID, again.ID)
	}
	f.want(http.StatusUnprocessableEntity, nil, "POST", "/v1/uploads", `{"name": "other"}`, api.HeaderIdempotencyKey, "k")
	at := "/v1/uploads/" + string(u.ID)
	put := func(status, n int, body string, header ...string) (u api.Upload) {
		t.Helper()
		f.want(status, &u, "PUT", fmt.Sprintf("%s/chunks/%d", at, n), body, append([]string{"Content-Type", ndjson}, header...)...)
		return u
	}
	f.want(http.StatusUnprocessableEntity, nil, "POST", at+"/seal", "")
	for range 2 {
		if u = put(200, 0, jobLines(0, 3)); u.NextChunk != 1 || u.Jobs != 3 || u.Sealed || time.Until(*u.ExpiresAt) < time.Minute {
			t.Errorf("after a chunk: %+v", u)
		}
	}
	put(http.StatusConflict, 0, jobLines(5, 3))
	put(http.StatusConflict, 2, jobLines(5, 3))
	put(http.StatusUnprocessableEntity, 1, jobLines(3, 2)+"{}\n")
	put(http.StatusUnprocessableEntity, 1, "\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(jobLines(3, 2)))
	_ = z.Close()
	if u = put(200, 1, packed.String(), "Content-Encoding", "gzip"); u.Jobs != 5 {
		t.Errorf("after a second chunk: %+v", u)
	}
	put(200, 1, jobLines(3, 2)) // the same chunk again
	f.want(http.StatusNotFound, nil, "GET", "/v1/batches/"+string(u.ID), "")
	f.want(http.StatusConflict, nil, "POST", at+"/seal", `{"jobs": 6}`)
	var b job.Batch
	for range 2 {
		f.want(http.StatusCreated, &b, "POST", at+"/seal", `{"jobs": 5}`)
	}
	if b.ID != u.ID || b.Total != 5 || b.Name != "big" || b.Labels["run"] != "1" {
		t.Errorf("the batch is %+v", b)
	}
	u = api.Upload{}
	f.want(200, &u, "GET", at, "")
	if !u.Sealed || u.ExpiresAt != nil {
		t.Errorf("sealed: %+v", u)
	}
	f.want(http.StatusConflict, nil, "DELETE", at, "")
	put(http.StatusConflict, 2, jobLines(5, 1))
}

func TestUploadGivenUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	u := f.openUpload("")
	at := "/v1/uploads/" + string(u.ID)
	f.want(200, nil, "PUT", at+"/chunks/0", jobLines(0, 2), "Content-Type", ndjson)
	f.want(http.StatusNoContent, nil, "DELETE", at, "")
	f.want(http.StatusNotFound, nil, "GET", at, "")
	f.want(http.StatusNotFound, nil, "PUT", at+"/chunks/1", jobLines(0, 2), "Content-Type", ndjson)
	f.want(http.StatusNotFound, nil, "POST", at+"/seal", "")
	if _, err := f.store.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.empty()
}

func TestUploadHoldsTheQuota(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Limits.Queued = 10 })
	u := f.openUpload("")
	at := "/v1/uploads/" + string(u.ID)
	f.want(200, nil, "PUT", at+"/chunks/0", jobLines(0, 6), "Content-Type", ndjson)
	f.want(http.StatusTooManyRequests, nil, "PUT", at+"/chunks/1", jobLines(6, 6), "Content-Type", ndjson)
	other := f.openUpload("")
	f.want(http.StatusTooManyRequests, nil, "PUT", "/v1/uploads/"+string(other.ID)+"/chunks/0", jobLines(0, 6), "Content-Type", ndjson)
	f.want(200, nil, "PUT", at+"/chunks/1", jobLines(6, 4), "Content-Type", ndjson)
}

// An error names the line of the file, and no job of the file is accepted.
func TestClientUpload(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := f.client()
	const n = 25_000
	b, err := c.Upload(t.Context(), client.BatchOptions{Name: "b", Key: "twice"}, strings.NewReader("\n\n"+jobLines(0, n)))
	if err != nil || b.Total != n || b.Name != "b" {
		t.Fatalf("uploaded %+v, %v", b, err)
	}
	again, err := c.Upload(t.Context(), client.BatchOptions{Name: "b", Key: "twice"}, strings.NewReader("\n\n"+jobLines(0, n)))
	if err != nil || again.ID != b.ID {
		t.Errorf("the same key made %+v, %v", again, err)
	}
	if _, err = c.Upload(t.Context(), client.BatchOptions{Name: "b", Key: "twice"}, strings.NewReader("\n\n"+jobLines(0, 10_000))); !errors.Is(err, job.ErrKeyUsed) {
		t.Errorf("a shorter file under the key: %v", err)
	}
	_, err = c.Upload(t.Context(), client.BatchOptions{}, strings.NewReader("\n"+jobLines(0, 12_000)+"{}\n"))
	var field *job.FieldError
	if !errors.As(err, &field) || field.Line != 12_002 || !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "12002") {
		t.Errorf("a bad line: %v", err)
	}
	if _, err = c.Upload(t.Context(), client.BatchOptions{}, strings.NewReader("\n")); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
	if jobs, batches, err := f.store.Waiting(t.Context(), "default"); err != nil || jobs > n || batches > 1 {
		t.Errorf("%d jobs in %d batches are there, %v", jobs, batches, err)
	}
}

// A chunk that stalls halfway is cut off.
func TestHalfAChunkIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Limits = httpapi.Limits{Patience: 300 * time.Millisecond} })
	u := f.openUpload("")
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	fmt.Fprintf(conn, "PUT /v1/uploads/%s/chunks/0 HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n%s", u.ID, ndjson, jobLines(0, 1))
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 408 ") {
		t.Errorf("half a chunk is answered with %q, %v", answer[:n], err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	f.want(200, &u, "GET", "/v1/uploads/"+string(u.ID), "")
	if u.Jobs != 0 || u.NextChunk != 0 {
		t.Errorf("half a chunk was taken: %+v", u)
	}
}

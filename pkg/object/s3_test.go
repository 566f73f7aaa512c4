package object

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// openFakeS3 opens s3://objects at a server that speaks just enough of S3 for
// the real client: the URL parameters, keys and error codes are what is tested.
func openFakeS3(t *testing.T) *Store {
	t.Helper()
	srv := httptest.NewServer(&fakeS3{objects: map[string][]byte{}})
	t.Cleanup(func() {
		srv.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s, err := Open(t.Context(), "s3://objects?region=us-east-1&use_path_style=true&request_checksum_calculation=when_required&response_checksum_validation=when_required&endpoint="+url.QueryEscape(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type fakeS3 struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up: nothing is stored
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("ETag", `"e"`)
	key := strings.TrimPrefix(r.URL.Path, "/objects/")
	switch {
	case r.URL.Query().Get("list-type") == "2":
		f.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodPut:
		f.objects[key] = body
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case f.objects[key] == nil:
		w.WriteHeader(http.StatusNotFound)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `<Error><Code>NoSuchKey</Code></Error>`)
		}
	default:
		http.ServeContent(w, r, "", time.Now(), bytes.NewReader(f.objects[key]))
	}
}

func (f *fakeS3) list(w io.Writer, prefix string) {
	type object struct {
		Key          string
		Size         int
		LastModified string
		ETag         string
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []object
	}
	for key, body := range f.objects {
		if strings.HasPrefix(key, prefix) {
			page.Contents = append(page.Contents, object{key, len(body), time.Now().UTC().Format(time.RFC3339), `"e"`})
		}
	}
	slices.SortFunc(page.Contents, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
	_ = xml.NewEncoder(w).Encode(page)
}

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

// openFakeS3 opens s3://objects at a server with just enough of S3 for the real client. The tests check URL
// parameters, keys and error codes.
func openFakeS3(t *testing.T) *Store {
	t.Helper()
	s, _ := openAgingS3(t)
	return s
}

// openAgingS3 also returns how to make all that is there a day old.
func openAgingS3(t *testing.T) (_ *Store, age func()) {
	t.Helper()
	fake := &fakeS3{objects: map[string][]byte{}, modified: map[string]time.Time{}}
	srv := httptest.NewServer(fake)
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
	return s, func() {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		for key := range fake.objects {
			fake.modified[key] = time.Now().Add(-24 * time.Hour)
		}
	}
}

type fakeS3 struct {
	mu       sync.Mutex
	objects  map[string][]byte
	modified map[string]time.Time
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up: nothing is stored
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/objects/")
	w.Header().Set("Last-Modified", f.modified[key].UTC().Format(http.TimeFormat))
	w.Header().Set("ETag", `"e"`)
	from, _ := url.QueryUnescape(r.Header.Get("X-Amz-Copy-Source"))
	from = strings.TrimPrefix(from, "objects/")
	switch {
	case r.URL.Query().Get("list-type") == "2":
		f.list(w, r.URL.Query().Get("prefix"))
	case from != "" && f.objects[from] == nil:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `<Error><Code>NoSuchKey</Code></Error>`)
	case from == key && r.Header.Get("X-Amz-Metadata-Directive") != "REPLACE": // as S3 does
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `<Error><Code>InvalidRequest</Code><Message>This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata.</Message></Error>`)
	case from != "":
		f.objects[key], f.modified[key] = f.objects[from], time.Now()
		fmt.Fprint(w, `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`)
	case r.Method == http.MethodPut:
		f.objects[key], f.modified[key] = body, time.Now()
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case f.objects[key] == nil:
		w.WriteHeader(http.StatusNotFound)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `<Error><Code>NoSuchKey</Code></Error>`)
		}
	default:
		http.ServeContent(w, r, "", f.modified[key], bytes.NewReader(f.objects[key]))
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
			page.Contents = append(page.Contents, object{key, len(body), f.modified[key].UTC().Format(time.RFC3339), `"e"`})
		}
	}
	slices.SortFunc(page.Contents, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
	_ = xml.NewEncoder(w).Encode(page)
}

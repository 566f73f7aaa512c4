package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/runtime"
)

// countingStore counts downloads.
type countingStore struct {
	*object.Store
	gets atomic.Int64
}

func (s *countingStore) GetBlob(ctx context.Context, tenant, ref string) (io.ReadCloser, int64, error) {
	s.gets.Add(1)
	return s.Store.GetBlob(ctx, tenant, ref)
}

func newCache(t *testing.T, limit int64) (*Inputs, *countingStore) {
	t.Helper()
	s, err := object.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	store := &countingStore{Store: s}
	in, err := NewInputs(store, t.TempDir()+"/cache", limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in, store
}

func upload(t *testing.T, s *countingStore, b byte, size int) string {
	t.Helper()
	ref, _, err := s.PutBlob(t.Context(), "acme", bytes.NewReader(bytes.Repeat([]byte{b}, size)), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(t *testing.T, f runtime.File) string {
	t.Helper()
	if f.Data != nil {
		return string(f.Data)
	}
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInputsInOrderOfTheirPaths(t *testing.T) {
	in, store := newCache(t, 1<<30)
	text, empty, b64 := "hello", "", "AAE="
	files := map[string]job.File{
		"/workspace/d": {Blob: upload(t, store, 'd', 2*blobInMemory)},
		"/workspace/a": {Text: &text},
		"/workspace/e": {Text: &empty},
		"/workspace/b": {Base64: &b64},
		"/workspace/c": {Blob: upload(t, store, 'c', 3)},
		"/workspace/f": {Blob: upload(t, store, 'f', 0)},
	}
	got, release, err := in.Fetch(t.Context(), "acme", files)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	want := []string{"hello", "\x00\x01", "ccc", strings.Repeat("d", 2*blobInMemory), "", ""}
	for i, f := range got {
		if f.Path != "/workspace/"+string(rune('a'+i)) || read(t, f) != want[i] || read(t, f) != want[i] {
			t.Errorf("file %d is %s with other bytes", i, f.Path)
		}
	}
}

func TestOneDownloadForAll(t *testing.T) {
	in, store := newCache(t, 1<<30)
	files := map[string]job.File{"/x": {Blob: upload(t, store, 'x', 2*blobInMemory)}}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, release, err := in.Fetch(t.Context(), "acme", files)
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if len(read(t, got[0])) != 2*blobInMemory {
				t.Error("other bytes")
			}
		})
	}
	wg.Wait()
	if n := store.gets.Load(); n != 1 {
		t.Errorf("downloaded %d times", n)
	}
}

// A caller that found nothing in the cache just before a download ended does not start another.
func TestNoDownloadAfterOneEnded(t *testing.T) {
	in, store := newCache(t, 1<<30)
	ref := upload(t, store, 'x', 2*blobInMemory)
	_, release, err := in.Fetch(t.Context(), "acme", map[string]job.File{"/x": {Blob: ref}})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	name, err := cacheName("acme", ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.once(t.Context(), "acme", ref, name); err != nil {
		t.Fatal(err)
	}
	if n := store.gets.Load(); n != 1 {
		t.Errorf("downloaded %d times", n)
	}
}

func TestCacheStaysWithinItsSize(t *testing.T) {
	const size = 2 * blobInMemory
	in, store := newCache(t, 2*size)
	held, release, err := in.Fetch(t.Context(), "acme", map[string]job.File{"/a": {Blob: upload(t, store, 'a', size)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []byte("bcd") {
		_, release, err := in.Fetch(t.Context(), "acme", map[string]job.File{"/x": {Blob: upload(t, store, b, size)}})
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	entries, err := os.ReadDir(in.dir)
	if err != nil || len(entries) != 2 || in.total != 2*size {
		t.Errorf("%d files, %d bytes in the cache, %v", len(entries), in.total, err)
	}
	if got := read(t, held[0]); got != strings.Repeat("a", size) {
		t.Error("a blob in use became unreadable when the cache dropped it")
	}
	release()
}

// Only its tenant can read a blob from the cache. Another tenant gets the same answer as for a
// missing blob. On 5ee7338 it got the bytes.
func TestCacheIsNoWayToBlobsOfOthers(t *testing.T) {
	for _, size := range []int{10, 2 * blobInMemory} {
		in, store := newCache(t, 1<<30)
		files := map[string]job.File{"/a": {Blob: upload(t, store, 'a', size)}}
		_, release, err := in.Fetch(t.Context(), "acme", files)
		if err != nil {
			t.Fatal(err)
		}
		release()
		_, _, err = in.Fetch(t.Context(), "other", files)
		var v *InputError
		if !errors.As(err, &v) {
			t.Errorf("%d bytes: %v, want that the blob does not exist", size, err)
		}
	}
}

func TestCorruptBlobIsOurFailure(t *testing.T) {
	for _, size := range []int{10, 2 * blobInMemory} {
		in, store := newCache(t, 1<<30)
		ref := upload(t, store, 'a', size)
		key, _ := object.BlobKey("acme", ref)
		if _, err := store.Put(t.Context(), key, strings.NewReader(strings.Repeat("b", size))); err != nil {
			t.Fatal(err)
		}
		_, _, err := in.Fetch(t.Context(), "acme", map[string]job.File{"/a": {Blob: ref}})
		var v *InputError
		if err == nil || errors.As(err, &v) {
			t.Errorf("%d bytes: %v, want a failure of ours", size, err)
		}
		if left, _ := os.ReadDir(in.dir); len(left) != 0 {
			t.Errorf("left in the cache: %v", left)
		}
	}
}

func TestWhatIsWrongWithInputs(t *testing.T) {
	t.Parallel()
	in, _ := newCache(t, 1<<30)
	bad := "x"
	for want, f := range map[string]job.File{
		"files: /a: not base64: illegal base64 data at input byte 0":                             {Base64: &bad},
		"files: /a: blob sha256:" + strings.Repeat("0", 64) + " does not exist; upload it first": {Blob: "sha256:" + strings.Repeat("0", 64)},
		"files: /a: blob: \"../etc\" must be":                                                    {Blob: "../etc"},
	} {
		_, _, err := in.Fetch(t.Context(), "acme", map[string]job.File{"/a": f})
		var wrong *InputError
		if !errors.As(err, &wrong) || wrong.Path != "/a" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

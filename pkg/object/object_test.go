package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"gocloud.dev/blob/memblob"

	"github.com/assay-run/assay/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stores are the places that must behave alike.
func stores(t *testing.T) map[string]*Store {
	t.Helper()
	dir, err := Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "made", "by-open"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Store{
		"file": dir,
		"mem":  {bucket: memblob.OpenBucket(nil), meter: newMeter()},
		"s3":   openFakeS3(t),
	}
	t.Cleanup(func() {
		for name, s := range all {
			if err := s.Close(); err != nil {
				t.Errorf("close %s: %v", name, err)
			}
		}
	})
	return all
}

func each(t *testing.T, f func(t *testing.T, s *Store)) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) { f(t, s) })
	}
}

func get(t *testing.T, s *Store, key string) string {
	t.Helper()
	r, info, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if info.Bytes != int64(len(b)) {
		t.Errorf("Get says %d bytes, read %d", info.Bytes, len(b))
	}
	return string(b)
}

func keys(t *testing.T, s *Store, prefix string) []string {
	t.Helper()
	var out []string
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o.Key)
	}
	return out
}

func TestPutGetStatDelete(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const key = "acme/j/1/out.txt"
		for _, body := range []string{"hello", "", strings.Repeat("x", 3<<20)} { // overwriting replaces it whole
			info, err := s.Put(t.Context(), key, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(body))
			if info.Bytes != int64(len(body)) || info.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("Put = %+v, want %d bytes, sha256 %x", info, len(body), sum)
			}
			if got := get(t, s, key); got != body {
				t.Errorf("Get returned %d other bytes", len(got))
			}
			if st, err := s.Stat(t.Context(), key); err != nil || st.Bytes != int64(len(body)) {
				t.Errorf("Stat = %+v, %v", st, err)
			}
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("Stat after Delete: %v, want ErrNotFound", err)
		}
		if _, _, err := s.Get(t.Context(), key); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("Get after Delete: %v, want ErrNotFound", err)
		}
	})
}

func TestFailedPutLeavesNothing(t *testing.T) {
	mine := errors.New("reader broke")
	each(t, func(t *testing.T, s *Store) {
		half := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), iotest.ErrReader(mine))
		_, err := s.Put(t.Context(), "acme/half", half)
		if !errors.Is(err, mine) || errors.Is(err, job.ErrUnavailable) {
			t.Errorf("Put = %v, want the reader's own error", err)
		}
		if got := keys(t, s, ""); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Put(ctx, "acme/canceled", strings.NewReader("x")); err == nil {
			t.Error("Put under a canceled context succeeded")
		}
		if got := keys(t, s, ""); len(got) != 0 {
			t.Errorf("left behind after cancel: %v", got)
		}
	})
}

func TestFileStoreAtRestIsEmpty(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, k := range []string{"a/1/1/x", "a/1/1/y/z", "a/2/7/x"} {
		if _, err := s.Put(t.Context(), k, strings.NewReader(k)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.DeletePrefix(t.Context(), "a/1/1/"); n != 2 || err != nil {
		t.Fatalf("DeletePrefix = %d, %v", n, err)
	}
	if got := keys(t, s, "a/"); !cmp.Equal(got, []string{"a/2/7/x"}) {
		t.Errorf("after DeletePrefix: %v", got)
	}
	if err := s.Delete(t.Context(), "a/2/7/x"); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("directories left: %v", left)
	}
}

func TestSweepTemp(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stale := filepath.Join(dir, "x.18b2.tmp") // the remains of a crashed write
	if err := os.WriteFile(stale, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, s, ""); len(got) != 0 {
		t.Errorf("half-written files are listed: %v", got)
	}
	if n, err := s.SweepTemp(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("a young file was swept: %d, %v", n, err)
	}
	if err := os.Chtimes(stale, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SweepTemp(t.Context(), time.Hour); n != 1 || err != nil {
		t.Errorf("SweepTemp = %d, %v, want 1", n, err)
	}
}

func TestBlobs(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, size := range []int{0, 5, spoolMemory, 3*spoolMemory + 1} {
			body := bytes.Repeat([]byte{'b'}, size)
			ref, n, err := s.PutBlob(t.Context(), "acme", bytes.NewReader(body), 1<<30)
			if err != nil || n != int64(size) {
				t.Fatalf("PutBlob(%d bytes) = %s, %d, %v", size, ref, n, err)
			}
			if again, _, err := s.PutBlob(t.Context(), "acme", iotest.OneByteReader(bytes.NewReader(body[:min(size, 64)])), 64); size <= 64 && (again != ref || err != nil) {
				t.Errorf("second PutBlob = %s, %v, want %s", again, err, ref)
			}
			r, n, err := s.GetBlob(t.Context(), "acme", ref)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, body) || n != int64(size) {
				t.Errorf("GetBlob: %d bytes (said %d), %v", len(got), n, err)
			}
			_ = r.Close()
		}
		if _, _, err := s.PutBlob(t.Context(), "acme", strings.NewReader("123456"), 5); !errors.Is(err, job.ErrTooLarge) {
			t.Errorf("above the limit: %v, want ErrTooLarge", err)
		}
		if _, _, err := s.GetBlob(t.Context(), "acme", "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("missing blob: %v, want ErrNotFound", err)
		}
		for _, ref := range []string{"", "sha256:abc", "md5:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("A", 64), "sha256:../../" + strings.Repeat("0", 58)} {
			if _, _, err := s.GetBlob(t.Context(), "acme", ref); !errors.Is(err, job.ErrInvalid) {
				t.Errorf("GetBlob(%q): %v, want ErrInvalid", ref, err)
			}
		}
	})
}

func TestBlobIsVerifiedOnRead(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ref, _, err := s.PutBlob(t.Context(), "acme", strings.NewReader("the truth"), 100)
		if err != nil {
			t.Fatal(err)
		}
		key, _ := BlobKey("acme", ref)
		if _, err := s.Put(t.Context(), key, strings.NewReader("something")); err != nil { // same length
			t.Fatal(err)
		}
		r, _, err := s.GetBlob(t.Context(), "acme", ref)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadAll(r); !errors.Is(err, errCorrupt) || !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("reading other bytes: %v", err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for _, u := range []string{"", "objects", "file://relative/dir", "file:///x?create_dir=1", "gs://bucket", "mem://", "file://\x00"} {
		if s, err := Open(t.Context(), u); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("Open(%q) = %v, %v, want ErrInvalid", u, s, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "file://"+file); err == nil {
		t.Error("a file was opened as a directory")
	}
}

func TestFullOrReadOnlyStoreIsUnavailable(t *testing.T) {
	s, err := Open(t.Context(), "file:///proc/self") // a directory in which nothing can be made
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), "acme/x", strings.NewReader("x")); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Put = %v, want ErrUnavailable", err)
	}
}

func TestGetRange(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		if _, err := s.Put(t.Context(), "acme/x", strings.NewReader("0123456789")); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			offset, n int64
			want      string
		}{{0, 3, "012"}, {7, -1, "789"}, {4, 2, "45"}, {8, 100, "89"}, {0, 0, ""}, {0, -1, "0123456789"}} {
			r, info, err := s.GetRange(t.Context(), "acme/x", c.offset, c.n)
			if err != nil {
				t.Errorf("%d+%d: %v", c.offset, c.n, err)
				continue
			}
			got, err := io.ReadAll(r)
			_ = r.Close()
			if err != nil || string(got) != c.want || info.Bytes != 10 {
				t.Errorf("%d+%d: %q of %d, %v, want %q of 10", c.offset, c.n, got, info.Bytes, err, c.want)
			}
		}
		if _, _, err := s.GetRange(t.Context(), "acme/y", 0, 1); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("nothing there: %v", err)
		}
		for _, key := range []string{"../x", ""} {
			if _, _, err := s.GetRange(t.Context(), key, 0, 1); !errors.Is(err, job.ErrInvalid) {
				t.Errorf("key %q: %v", key, err)
			}
		}
		if _, _, err := s.GetRange(t.Context(), "acme/x", -1, 1); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("before the beginning: %v", err)
		}
	})
}

package transfer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened returns a store over a directory of the test.
func opened(t *testing.T) *Store {
	t.Helper()
	objects, err := object.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	return &Store{Objects: objects}
}

func TestArtifactLimitsAreCheckedAgain(t *testing.T) {
	s := opened(t)
	as := s.Artifacts(Owner{Tenant: "acme", Job: job.NewID(), Lease: 1}, policy.Artifacts{MaxFiles: 2, MaxBytes: 10})
	keep := func(name, text string, size int64) error {
		return as.Collect(t.Context(), name, size, strings.NewReader(text))
	}
	if err := keep("/a", "12345678", 8); err != nil {
		t.Fatal(err)
	}
	if err := keep("/b", "123", 3); !errors.Is(err, job.ErrTooLarge) {
		t.Errorf("above max_bytes: %v", err)
	}
	if err := keep("/b", "123456", 2); err != nil || as.Stored().Artifacts[1].Bytes != 2 { // yields more than the reported size
		t.Errorf("a file that grew: %v, %+v", err, as.Stored().Artifacts)
	}
	if err := keep("/c", "", 0); !errors.Is(err, job.ErrTooLarge) {
		t.Errorf("above max_files: %v", err)
	}
	if err := keep("/../etc", "", 0); err == nil {
		t.Error("a path that is not clean was kept")
	}
}

func TestMediaType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ head, want string }{
		"/workspace/a.csv":  {"a,b\n", "text/csv; charset=utf-8"},
		"/workspace/A.JSON": {"{", "application/json"},
		"/workspace/a.npy":  {"\x93NUMPY", "application/octet-stream"},
		"/workspace/plot":   {"\x89PNG\x0d\x0a\x1a\x0a", "image/png"},
		"/workspace/a.dat":  {"\x00\x01", "application/octet-stream"},
		"/workspace/notes":  {"hello", "text/plain; charset=utf-8"},
		"/workspace/empty":  {"", "text/plain; charset=utf-8"},
	} {
		if got := mediaType(name, []byte(c.head)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// flaky is an object store whose first uploads fail.
type flaky struct {
	Objects
	with  error
	fails int // number of failing uploads
	tries int
}

func (f *flaky) Put(ctx context.Context, key string, r io.Reader) (object.Info, error) {
	if f.tries++; f.tries <= f.fails {
		return object.Info{}, f.with
	}
	return f.Objects.Put(ctx, key, r)
}

// Uploads from memory are retried a few times while the store is unavailable. Other uploads, and
// refused ones, are tried once.
func TestUploadsAreRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with  error
		fails int
		size  int
		tries int
		ok    bool
	}{
		"nothing fails":   {nil, 0, 10, 1, true},
		"away for a time": {job.ErrUnavailable, uploadTries - 1, 10, uploadTries, true},
		"away for long":   {job.ErrUnavailable, 100, 10, uploadTries, false},
		"refused":         {job.ErrRefused, 1, 10, 1, false},
		"large":           {job.ErrUnavailable, 1, artifactInMemory + 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := opened(t)
				f := &flaky{Objects: s.Objects, with: c.with, fails: c.fails}
				heard := int64(0)
				s.Objects, s.Kept = f, func(_ context.Context, n int64) { heard += n }
				as := s.Artifacts(Owner{"acme", job.NewID(), 1}, policy.Artifacts{MaxFiles: 1, MaxBytes: job.GiB})
				err := as.Collect(t.Context(), "/a", int64(c.size), strings.NewReader(strings.Repeat("x", c.size)))
				if (err == nil) != c.ok || err != nil && !errors.Is(err, c.with) || f.tries != c.tries {
					t.Errorf("%v after %d tries, want %d", err, f.tries, c.tries)
				}
				got := as.Stored()
				if (len(got.Artifacts) == 1) != c.ok || got.Bytes != heard || c.ok && heard != int64(c.size) {
					t.Errorf("stored %+v, heard of %d bytes", got, heard)
				}
				if got.First.IsZero() || got.Last.Sub(got.First) != got.Took {
					t.Errorf("it took %v, from %v to %v", got.Took, got.First, got.Last)
				}
			})
		})
	}
}

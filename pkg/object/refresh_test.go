package object

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// openAging opens a store of each kind, and returns a function that makes its objects a day old.
func openAging(t *testing.T) map[string]func(*testing.T) (*Store, func()) {
	return map[string]func(*testing.T) (*Store, func()){
		"s3": openAgingS3,
		"file": func(t *testing.T) (*Store, func()) {
			dir := t.TempDir()
			s, err := Open(t.Context(), "file://"+dir)
			if err != nil {
				t.Fatal(err)
			}
			return s, func() {
				then := time.Now().Add(-24 * time.Hour)
				err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					return os.Chtimes(path, then, then)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

// TestBlobsAreRefreshed checks that an existing blob becomes young when a client uploads it again or asks for
// it.
func TestBlobsAreRefreshed(t *testing.T) {
	for kind, open := range openAging(t) {
		t.Run(kind, func(t *testing.T) {
			s, age := open(t)
			defer s.Close()
			ref, _, err := s.PutBlob(t.Context(), "acme", strings.NewReader("an input"), 100)
			if err != nil {
				t.Fatal(err)
			}
			key, err := BlobKey("acme", ref)
			if err != nil {
				t.Fatal(err)
			}
			young := func(what string, want bool) {
				t.Helper()
				o, err := s.Stat(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Since(o.Modified) < time.Hour; got != want || o.Bytes != 8 {
					t.Errorf("%s: %d bytes of %v", what, o.Bytes, o.Modified)
				}
			}
			young("new", true)
			age()
			young("a day old", false)
			if _, _, err := s.PutBlob(t.Context(), "acme", strings.NewReader("an input"), 100); err != nil {
				t.Fatal(err)
			}
			young("uploaded again", true)
			age()
			o, err := s.StatBlob(t.Context(), "acme", ref)
			if err != nil || o.Bytes != 8 || time.Since(o.Modified) > time.Hour {
				t.Errorf("%+v, %v", o, err)
			}
			young("asked for", true)
			r, _, err := s.GetBlob(t.Context(), "acme", ref)
			if err != nil {
				t.Fatal(err)
			}
			r.Close()

			have := Info{Key: key, Modified: time.Now().Add(-24 * time.Hour)}
			if err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if _, err := s.refresh(t.Context(), have); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("removed since: %v", err)
			}
		})
	}
}

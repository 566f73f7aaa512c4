package object

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/assay-run/assay/pkg/job"
)

// tempSuffix is the suffix of a file during its write. No key ends in it (see escape).
const tempSuffix = ".tmp"

// List yields the objects whose key has the given prefix, which may be empty, in the order of their
// keys. It stops after the first error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if prefix != "" {
			if err := checkKey(strings.TrimSuffix(prefix, "/")); err != nil {
				yield(Info{}, err)
				return
			}
		}
		it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
		began, failed := time.Now(), error(nil)
		defer func() { s.meter.done(ctx, "list", began, failed) }()
		for {
			o, err := it.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				failed = translate(err, "list", prefix)
				yield(Info{}, failed)
				return
			}
			if strings.HasSuffix(o.Key, tempSuffix) {
				continue
			}
			if !yield(Info{Key: o.Key, Bytes: o.Size, Modified: o.ModTime}, nil) {
				return
			}
		}
	}
}

// DeletePrefix removes every object under prefix, which must end in a slash, and returns their
// number. It continues after an error and returns all errors.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if !strings.HasSuffix(prefix, "/") {
		return 0, job.Invalid("prefix", "%q must end in a slash", prefix)
	}
	var keys []string // collected first: deletion during listing skips entries
	for o, err := range s.List(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		keys = append(keys, o.Key)
	}
	var errs []error
	n := 0
	for _, key := range keys {
		switch err := s.Delete(ctx, key); {
		case err == nil:
			n++
		case !errors.Is(err, job.ErrNotFound):
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// SweepTemp removes temporary files of crashed writers that are older than age from a directory. It
// returns their number. A bucket discards such uploads by itself.
func (s *Store) SweepTemp(ctx context.Context, age time.Duration) (int, error) {
	if s.dir == "" {
		return 0, nil
	}
	n := 0
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, tempSuffix) {
			return ctx.Err() // the next sweep handles unreadable files
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > age && os.Remove(path) == nil {
			n++
		}
		return ctx.Err()
	})
	return n, err
}

// Package object stores data that is too large for a row: artifacts of jobs and shared inputs.
//
// It is the only package that uses the blob library. A store is a directory (file:///dir) or a
// bucket (s3://bucket?region=…&endpoint=…). Both behave alike: writes and overwrites are atomic.
// ArtifactKey and BlobKey build the keys, so that no path from a user can leave its attempt's
// prefix.
//
// Errors wrap job.ErrNotFound, job.ErrInvalid (a malformed key or digest) or job.ErrUnavailable
// (the store failed; a retry may help). Errors of the caller's own reader are returned unchanged.
package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // the s3:// scheme

	"github.com/assay-run/assay/pkg/job"
)

// Store is one place for objects. It is safe for concurrent use.
type Store struct {
	bucket *blob.Bucket
	dir    string // root of a file:// store, otherwise empty
	meter  meter
}

// Info describes one object.
type Info struct {
	Key      string
	Bytes    int64
	SHA256   string // hex; set by Put only
	Modified time.Time
}

// Open opens the store at rawURL. A file:///dir is created if necessary. An s3://bucket takes the
// query parameters of gocloud.dev/blob/s3blob (region, endpoint, use_path_style, prefix, …) and the
// usual AWS_* credentials. The error wraps job.ErrInvalid for a wrong URL.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, job.Invalid("objects", "%q is not a URL such as file:///var/lib/assay/objects or s3://bucket", rawURL)
	}
	switch u.Scheme {
	case "file":
		return openDir(u)
	case "s3":
		b, err := blob.OpenBucket(ctx, rawURL)
		if err != nil {
			return nil, fmt.Errorf("%w: open objects at s3://%s: %w", job.ErrInvalid, u.Host, err)
		}
		return &Store{bucket: b, meter: newMeter()}, nil
	}
	return nil, job.Invalid("objects", "%q must start with file:/// or s3://", rawURL)
}

func openDir(u *url.URL) (*Store, error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, job.Invalid("objects", "%q must be file:/// and an absolute path", u.String())
	}
	dir := filepath.Clean(u.Path)
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{
		CreateDir:   true,
		DirFileMode: 0o700,                      // tenants' files, on a machine that runs untrusted code
		NoTempDir:   true,                       // rename must not cross file systems
		Metadata:    fileblob.MetadataDontWrite, // no sidecar file beside each object
	})
	if err != nil {
		return nil, fmt.Errorf("%w: open objects at %s: %w", job.ErrUnavailable, dir, err)
	}
	return &Store{bucket: b, dir: dir, meter: newMeter()}, nil
}

// Close releases the store's connections.
func (s *Store) Close() error { return s.bucket.Close() }

// Put stores the content of r under key and returns its size and sha256. The object becomes visible
// only after r was read to its end without error.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (info Info, err error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	src, began := &source{r: r}, time.Now()
	defer func() {
		if src.err == nil { // otherwise the caller's reader failed
			s.meter.done(ctx, "put", began, err)
			s.meter.moved(ctx, "put", info.Bytes)
		}
	}()
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	w, err := s.newWriter(ctx, key)
	if err != nil {
		return Info{}, translate(err, "put", key)
	}
	sum := sha256.New()
	src.r = io.TeeReader(r, sum)
	n, err := copyTo(w, src)
	if err != nil {
		abort() // Close would publish an incomplete object
		_ = w.Close()
		if src.err != nil {
			return Info{}, fmt.Errorf("put %s: read: %w", key, src.err)
		}
		return Info{}, translate(err, "put", key)
	}
	if err := w.Close(); err != nil {
		return Info{}, translate(err, "put", key)
	}
	return Info{Key: key, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil)), Modified: time.Now()}, nil
}

// buffers holds the memory of copies, *[64 << 10]byte.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copyTo is io.Copy without the ReadFrom of a blob.Writer, which allocates a mebibyte for each
// object, however small.
func copyTo(w io.Writer, r io.Reader) (int64, error) {
	b := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(b)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, b[:])
}

// contentType is the content type of all objects.
const contentType = "application/octet-stream"

// newWriter opens key for writing. In a directory it retries if prune removed a new parent
// directory before its use.
func (s *Store) newWriter(ctx context.Context, key string) (w *blob.Writer, err error) {
	for range 5 {
		w, err = s.bucket.NewWriter(ctx, key, &blob.WriterOptions{ContentType: contentType})
		if err == nil || s.dir == "" || !os.IsNotExist(rootCause(err)) {
			return w, err
		}
	}
	return w, err
}

// source records errors of its reader, to distinguish the caller's failures from the store's.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// Get opens the object under key. The caller closes it.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	if err := checkKey(key); err != nil {
		return nil, Info{}, err
	}
	began := time.Now()
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		err = translate(err, "get", key)
	}
	s.meter.done(ctx, "get", began, err)
	if err != nil {
		return nil, Info{}, err
	}
	return &reader{Reader: r, key: key, ctx: ctx, meter: &s.meter}, Info{Key: key, Bytes: r.Size(), Modified: r.ModTime()}, nil
}

// GetRange opens n bytes of the object under key from offset. A negative n means the rest.
// Info.Bytes is the size of the whole object. The caller closes it.
func (s *Store) GetRange(ctx context.Context, key string, offset, n int64) (io.ReadCloser, Info, error) {
	if err := checkKey(key); err != nil {
		return nil, Info{}, err
	}
	if offset < 0 {
		return nil, Info{}, job.Invalid("offset", "%d is negative", offset)
	}
	began := time.Now()
	r, err := s.bucket.NewRangeReader(ctx, key, offset, n, nil)
	if err != nil {
		err = translate(err, "get", key)
	}
	s.meter.done(ctx, "get", began, err)
	if err != nil {
		return nil, Info{}, err
	}
	return &reader{Reader: r, key: key, ctx: ctx, meter: &s.meter}, Info{Key: key, Bytes: r.Size(), Modified: r.ModTime()}, nil
}

// reader translates the errors of a read.
type reader struct {
	*blob.Reader
	key   string
	ctx   context.Context // of the Get, for metrics
	meter *meter
	read  int64
}

// Close counts the bytes read.
func (r *reader) Close() error {
	r.meter.moved(r.ctx, "get", r.read)
	r.read = 0
	return r.Reader.Close()
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read += int64(n)
	if err != nil && err != io.EOF {
		err = translate(err, "read", r.key)
	}
	return n, err
}

// Stat describes the object under key without reading it.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	began := time.Now()
	a, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		err = translate(err, "stat", key)
	}
	s.meter.done(ctx, "stat", began, err)
	if err != nil {
		return Info{}, err
	}
	return Info{Key: key, Bytes: a.Size, Modified: a.ModTime}, nil
}

// Delete removes the object under key. The error wraps job.ErrNotFound if it does not exist.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	began := time.Now()
	err := s.bucket.Delete(ctx, key)
	if err != nil {
		err = translate(err, "delete", key)
	}
	s.meter.done(ctx, "delete", began, err)
	if err != nil {
		return err
	}
	s.prune(key)
	return nil
}

// prune removes directories that became empty when key was deleted. Buckets have no directories.
func (s *Store) prune(key string) {
	if s.dir == "" {
		return
	}
	for dir := filepath.Dir(filepath.Join(s.dir, key)); len(dir) > len(s.dir); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			return // not empty, or in use by a writer
		}
	}
}

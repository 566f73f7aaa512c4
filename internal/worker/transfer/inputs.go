package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/runtime"
)

// blobInMemory is the largest blob, in bytes, that is held in memory rather than in the cache
// directory.
const blobInMemory = 256 << 10

// Inputs fetches input files before their programs get a slot. Many jobs of a tenant share blobs,
// so Inputs keeps them in a directory and evicts the least recently used. A tenant cannot find
// another tenant's blobs in it.
type Inputs struct {
	objects Objects
	dir     string // empty: no cache, every blob in memory
	limit   int64

	flight singleflight.Group
	mu     sync.Mutex
	sizes  map[string]int64 // by file name
	order  []string         // least recently used first
	total  int64
}

// NewInputs returns inputs that cache up to limit bytes of blobs in dir, or none without dir. It
// empties the directory first, as another process may have left partial files.
func NewInputs(objects Objects, dir string, limit int64) (*Inputs, error) {
	if dir != "" {
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("clear input cache: %w", err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make input cache: %w", err)
		}
	}
	return &Inputs{objects: objects, dir: dir, limit: limit, sizes: map[string]int64{}}, nil
}

// Close removes the cache.
func (in *Inputs) Close() {
	if in.dir != "" {
		_ = os.RemoveAll(in.dir)
	}
}

// Fetch returns the inputs of a tenant's job, sorted by path, and a function that releases them.
// The error is an *InputError if the job is at fault.
func (in *Inputs) Fetch(ctx context.Context, tenant string, files map[string]job.File) (out []runtime.File, release func(), err error) {
	if len(files) == 0 {
		return nil, func() {}, nil
	}
	var open []io.Closer
	release = func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f, c, err := in.one(ctx, tenant, path, files[path])
		if err != nil {
			release()
			return nil, nil, err
		}
		if c != nil {
			open = append(open, c)
		}
		out = append(out, f)
	}
	return out, release, nil
}

// InputError describes a file of a job that no worker can fetch.
type InputError struct {
	Path string
	Why  string
}

func (e *InputError) Error() string { return fmt.Sprintf("files: %s: %s", e.Path, e.Why) }

func (in *Inputs) one(ctx context.Context, tenant, path string, f job.File) (runtime.File, *os.File, error) {
	switch {
	case f.Text != nil:
		return runtime.File{Path: path, Data: []byte(*f.Text)}, nil, nil
	case f.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*f.Base64)
		if err != nil {
			return runtime.File{}, nil, &InputError{path, fmt.Sprintf("not base64: %v", err)}
		}
		return runtime.File{Path: path, Data: data}, nil, nil
	}
	file, c, err := in.blob(ctx, tenant, f.Blob)
	if err != nil {
		return file, nil, blamed(err, path, f.Blob)
	}
	file.Path = path
	return file, c, nil
}

// blamed turns the error of a blob into an *InputError if the job is at fault.
func blamed(err error, path, ref string) error {
	switch {
	case errors.Is(err, job.ErrNotFound):
		return &InputError{path, fmt.Sprintf("blob %s does not exist; upload it first", ref)}
	case errors.Is(err, job.ErrInvalid):
		return &InputError{path, err.Error()}
	}
	return fmt.Errorf("input %s: %w", path, err)
}

// Blob returns a blob of a tenant, its size in bytes, and a function that releases it. Its errors
// show what in place of a path.
func (in *Inputs) Blob(ctx context.Context, tenant, ref, what string) (f runtime.File, bytes int64, release func(), err error) {
	f, c, err := in.blob(ctx, tenant, ref)
	if err != nil {
		return f, 0, nil, blamed(err, what, ref)
	}
	if c == nil {
		return f, int64(len(f.Data)), func() {}, nil
	}
	st, err := c.Stat()
	if err != nil {
		return f, 0, nil, errors.Join(fmt.Errorf("input %s: %w", what, err), c.Close())
	}
	return f, st.Size(), func() { _ = c.Close() }, nil
}

// blob returns a file without its path, and the open file to close after use.
func (in *Inputs) blob(ctx context.Context, tenant, ref string) (runtime.File, *os.File, error) {
	name, err := cacheName(tenant, ref)
	if err != nil {
		return runtime.File{}, nil, err
	}
	if f := in.cached(name); f != nil {
		return fromDisk(f), f, nil
	}
	v, err := in.once(ctx, tenant, ref, name)
	if err != nil {
		return runtime.File{}, nil, err
	}
	if data, ok := v.([]byte); ok {
		return runtime.File{Data: data}, nil, nil
	}
	if f := in.cached(name); f != nil {
		return fromDisk(f), f, nil
	}
	return runtime.File{}, nil, fmt.Errorf("blob %s left the cache at once: the input cache is too small", ref)
}

// once downloads a blob once for all concurrent callers. The download does not end with the first
// caller. once looks in the cache again, in case another download has just ended.
func (in *Inputs) once(ctx context.Context, tenant, ref, name string) (any, error) {
	v, err, _ := in.flight.Do(name, func() (any, error) {
		if f := in.cached(name); f != nil {
			return nil, f.Close()
		}
		return in.download(context.WithoutCancel(ctx), tenant, ref, name)
	})
	return v, err
}

// cacheName returns the file name of a tenant's blob in the cache.
func cacheName(tenant, ref string) (string, error) {
	key, err := object.BlobKey(tenant, ref)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(key))), err
}

// fromDisk reads an open file of the cache. It stays readable after the cache evicts it.
func fromDisk(f *os.File) runtime.File {
	return runtime.File{Open: func(context.Context) (io.ReadCloser, error) {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		return io.NopCloser(io.NewSectionReader(f, 0, st.Size())), nil
	}}
}

// download returns the bytes of a small blob. It puts a large one into the cache and returns nil.
func (in *Inputs) download(ctx context.Context, tenant, ref, name string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, size, err := in.objects.GetBlob(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size <= blobInMemory || in.dir == "" {
		return io.ReadAll(r) // verified at its end; never nil
	}
	tmp, err := os.CreateTemp(in.dir, "download-")
	if err != nil {
		return nil, err
	}
	defer tmp.Close()
	if _, err = io.Copy(tmp, r); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(in.dir, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return nil, err
	}
	in.keep(name, size)
	return nil, nil
}

// cached opens a blob of the cache, or returns nil.
func (in *Inputs) cached(name string) *os.File {
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, ok := in.sizes[name]; !ok {
		return nil
	}
	f, err := os.Open(filepath.Join(in.dir, name))
	if err != nil {
		return nil
	}
	in.touch(name)
	return f
}

func (in *Inputs) keep(name string, size int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, ok := in.sizes[name]; !ok {
		in.sizes[name] = size
		in.total += size
	}
	in.touch(name)
	for in.total > in.limit && len(in.order) > 1 { // never the latest
		oldest := in.order[0]
		in.order = in.order[1:]
		in.total -= in.sizes[oldest]
		delete(in.sizes, oldest)
		_ = os.Remove(filepath.Join(in.dir, oldest))
	}
}

func (in *Inputs) touch(name string) {
	if i := slices.Index(in.order, name); i >= 0 {
		in.order = slices.Delete(in.order, i, i+1)
	}
	in.order = append(in.order, name)
}

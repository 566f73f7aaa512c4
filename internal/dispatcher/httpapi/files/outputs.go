package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// OpenOutput opens an output that an attempt of the job stored. It rejects other objects, because the record comes from
// a worker.
func (f *Files) OpenOutput(ctx context.Context, tenant string, id job.ID, stream string, step int, o *job.StoredOutput) (io.ReadSeekCloser, error) {
	_, _, lease, ok := object.AttemptOf(o.Object)
	own, err := object.OutputKey(tenant, id, lease, stream, step)
	if !ok || err != nil || own != o.Object {
		return nil, fmt.Errorf("%w: the record names another object", job.ErrNotFound)
	}
	return f.openRange(ctx, own, o.Bytes)
}

// openRange opens an object for reads from any offset. It fails unless the object has size bytes.
func (f *Files) openRange(ctx context.Context, key string, size int64) (io.ReadSeekCloser, error) {
	empty, info, err := f.Objects.GetRange(ctx, key, 0, 0)
	if err != nil {
		return nil, err
	}
	_ = empty.Close()
	if info.Bytes != size {
		return nil, fmt.Errorf("%w: the object differs from its record", job.ErrUnavailable)
	}
	return &rangeReader{size: info.Bytes, open: func(offset int64) (io.ReadCloser, error) {
		body, _, err := f.Objects.GetRange(ctx, key, offset, -1)
		return body, err
	}}, nil
}

// rangeReader reads an object from any offset.
type rangeReader struct {
	open func(offset int64) (io.ReadCloser, error)
	size int64
	at   int64
	body io.ReadCloser // begins at at; nil if not open
}

func (r *rangeReader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if r.body == nil {
		body, err := r.open(r.at)
		if err != nil {
			return 0, err
		}
		r.body = body
	}
	n, err := r.body.Read(p)
	if r.at += int64(n); err == io.EOF && r.at < r.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (r *rangeReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return r.at, errors.New("seek before the beginning")
	}
	if offset != r.at {
		_ = r.Close()
		r.at = offset
	}
	return offset, nil
}

func (r *rangeReader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

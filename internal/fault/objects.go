package fault

import (
	"context"
	"io"

	"github.com/assay-run/assay/pkg/object"
)

// Objects is an object store with random failures.
type Objects struct {
	*object.Store
	In *Injector
}

// Put implements object.Store.
func (o *Objects) Put(ctx context.Context, key string, r io.Reader) (object.Info, error) {
	return get(o.In, "put", func() (object.Info, error) { return o.Store.Put(ctx, key, r) })
}

// PutBlob implements object.Store.
func (o *Objects) PutBlob(ctx context.Context, tenant string, r io.Reader, limit int64) (ref string, n int64, err error) {
	err = o.In.do("put blob", func() error {
		ref, n, err = o.Store.PutBlob(ctx, tenant, r, limit)
		return err
	})
	return ref, n, err
}

// DeletePrefix implements object.Store.
func (o *Objects) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	return get(o.In, "delete", func() (int, error) { return o.Store.DeletePrefix(ctx, prefix) })
}

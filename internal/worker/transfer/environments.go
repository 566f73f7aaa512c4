package transfer

import (
	"context"
	"io"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/object"
)

// EnvironmentObjects is the part of the object store that environments need.
type EnvironmentObjects interface {
	GetEnvironment(ctx context.Context, name, digest string) (io.ReadCloser, error)
	PutEnvironment(ctx context.Context, name, digest string, replace bool, write func(io.Writer) error) error
}

var _ EnvironmentObjects = (*object.Store)(nil)

// Environments shares the package environments that workers have built. The dispatchers decide
// which of them enough workers have built, and the object store keeps them. A runtime checks those
// it downloads.
type Environments struct {
	Worker  string // name of this worker
	Control interface {
		Environment(ctx context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error)
	}
	Objects EnvironmentObjects
}

// Find returns the digest of the environment that enough workers of this worker's pool have built
// under a name. It is empty if too few have, or if environments are not shared. The error wraps
// job.ErrUnavailable if no dispatcher answers, or only dispatchers of an older release do.
func (e *Environments) Find(ctx context.Context, name string) (digest string, err error) {
	reply, err := e.Control.Environment(ctx, control.EnvironmentRequest{Worker: e.Worker, Name: name})
	return reply.Digest, err
}

// Open opens a stored environment. The error wraps job.ErrNotFound if there is none.
func (e *Environments) Open(ctx context.Context, name, digest string) (io.ReadCloser, error) {
	return e.Objects.GetEnvironment(ctx, name, digest)
}

// Offer reports that this worker has built an environment, and stores the output of write, unless
// it is stored already. If environments are not shared, it stores nothing.
func (e *Environments) Offer(ctx context.Context, name, digest string, replace bool, write func(io.Writer) error) error {
	reply, err := e.Control.Environment(ctx, control.EnvironmentRequest{Worker: e.Worker, Name: name, Digest: digest})
	if err != nil || reply.Off {
		return err
	}
	return e.Objects.PutEnvironment(ctx, name, digest, replace, write)
}

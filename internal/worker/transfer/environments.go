package transfer

import (
	"context"
	"io"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/object"
)

// EnvironmentObjects is what environments need of the object store.
type EnvironmentObjects interface {
	GetEnvironment(ctx context.Context, name, digest string) (io.ReadCloser, error)
	PutEnvironment(ctx context.Context, name, digest string, replace bool, write func(io.Writer) error) error
}

var _ EnvironmentObjects = (*object.Store)(nil)

// Environments is how workers share the environments of packages that they have built: the
// dispatchers say what enough of them have built, and the object store has it. A runtime
// checks what it gets there.
type Environments struct {
	Worker  string // whose they are
	Control interface {
		Environment(ctx context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error)
	}
	Objects EnvironmentObjects
}

// Find returns the digest of what enough workers of this one's pool have built under a
// name; empty: not enough have, or environments are not shared. The error wraps
// job.ErrUnavailable if no dispatcher answers, or those that do are of an older release.
func (e *Environments) Find(ctx context.Context, name string) (digest string, err error) {
	reply, err := e.Control.Environment(ctx, control.EnvironmentRequest{Worker: e.Worker, Name: name})
	return reply.Digest, err
}

// Open opens what some worker has stored as that. The error wraps job.ErrNotFound if none has.
func (e *Environments) Open(ctx context.Context, name, digest string) (io.ReadCloser, error) {
	return e.Objects.GetEnvironment(ctx, name, digest)
}

// Offer states that this worker has built it, and stores what write writes, unless it is
// there. Where environments are not shared nothing is stored.
func (e *Environments) Offer(ctx context.Context, name, digest string, replace bool, write func(io.Writer) error) error {
	reply, err := e.Control.Environment(ctx, control.EnvironmentRequest{Worker: e.Worker, Name: name, Digest: digest})
	if err != nil || reply.Off {
		return err
	}
	return e.Objects.PutEnvironment(ctx, name, digest, replace, write)
}

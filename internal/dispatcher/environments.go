package dispatcher

import (
	"context"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/store"
)

// HandleEnvironment stores the digest of an environment that the worker built. Without a digest in the request, it
// returns the digest that enough workers of the pool reported, or an empty one. It sets Off if environments are not
// shared.
func (r *recorder) HandleEnvironment(ctx context.Context, req control.EnvironmentRequest) (control.EnvironmentReply, error) {
	witnesses := r.witnesses
	if witnesses == 0 {
		return control.EnvironmentReply{Off: true}, nil
	}
	if req.Digest != "" {
		return control.EnvironmentReply{}, r.store.StateEnvironment(ctx, store.EnvironmentStatement{
			Name: req.Name, Pool: req.Pool, Worker: req.Worker, Witness: req.Witness, Digest: req.Digest,
		})
	}
	digest, err := r.store.Environment(ctx, req.Pool, req.Name, witnesses)
	return control.EnvironmentReply{Digest: digest}, err
}

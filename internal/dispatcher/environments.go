package dispatcher

import (
	"context"

	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// HandleEnvironment answers a worker that lacks an environment with what enough others of
// its pool have built, or keeps what it has built itself.
func (r *recorder) HandleEnvironment(ctx context.Context, req queue.EnvironmentRequest) (queue.EnvironmentReply, error) {
	witnesses := r.witnesses
	if witnesses == 0 {
		return queue.EnvironmentReply{Off: true}, nil
	}
	if req.Digest != "" {
		return queue.EnvironmentReply{}, r.store.StateEnvironment(ctx, store.EnvironmentStatement{
			Name: req.Name, Pool: req.Pool, Worker: req.Worker, Witness: req.Witness, Digest: req.Digest,
		})
	}
	digest, err := r.store.Environment(ctx, req.Pool, req.Name, witnesses)
	return queue.EnvironmentReply{Digest: digest}, err
}

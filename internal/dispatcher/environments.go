package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// HandleEnvironment answers a worker that lacks an environment with what enough others of
// its pool have built, or keeps what it has built itself.
func (r *recorder) HandleEnvironment(ctx context.Context, req queue.EnvironmentRequest) (queue.EnvironmentReply, error) {
	witnesses := r.d.cfg.EnvironmentWitnesses
	if witnesses == 0 {
		return queue.EnvironmentReply{Off: true}, nil
	}
	if req.Digest != "" {
		return queue.EnvironmentReply{}, r.d.store.StateEnvironment(ctx, store.EnvironmentStatement{
			Name: req.Name, Pool: req.Pool, Worker: req.Worker, Witness: req.Witness, Digest: req.Digest,
		})
	}
	digest, err := r.d.store.Environment(ctx, req.Pool, req.Name, witnesses)
	return queue.EnvironmentReply{Digest: digest}, err
}

// sweepEnvironments removes, or in a dry run counts, environments in the object store that
// nobody has fetched or offered within BlobAge, and forgets what was stated before that.
// Nothing depends on them: a worker that does not find one builds it.
func (s *sweeper) sweepEnvironments(ctx context.Context, dry bool) (found api.SweepReport, err error) {
	if s.cfg.BlobAge == 0 {
		return found, nil
	}
	if err := s.ours(ctx, dry); err != nil {
		return found, err
	}
	before := time.Now().Add(-s.cfg.BlobAge)
	old, err := s.old(ctx, object.EnvironmentPrefix, before, object.IsEnvironment)
	if err != nil {
		return found, err
	}
	found, err = s.removeOld(ctx, old, before, dry)
	found.Environments = len(old)
	if !dry {
		_, ferr := s.store.ForgetEnvironments(ctx, s.cfg.BlobAge)
		err = errors.Join(err, ferr)
	}
	return found, err
}

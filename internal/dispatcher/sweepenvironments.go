package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/object"
)

// sweepEnvironments removes environments from the object store that were not fetched or offered within BlobAge, and
// forgets older statements about them. In a dry run it only counts them. Removal is safe: a worker builds a missing
// environment.
func (s *sweeper) sweepEnvironments(ctx context.Context, dry bool) (found api.SweepReport, err error) {
	if s.BlobAge == 0 {
		return found, nil
	}
	if err := s.checkOwner(ctx, dry); err != nil {
		return found, err
	}
	before := time.Now().Add(-s.BlobAge)
	old, err := s.old(ctx, object.EnvironmentPrefix, before, object.IsEnvironment)
	if err != nil {
		return found, err
	}
	found, err = s.removeOld(ctx, old, before, dry)
	found.Environments = len(old)
	if !dry {
		_, ferr := s.Store.ForgetEnvironments(ctx, s.BlobAge)
		err = errors.Join(err, ferr)
	}
	return found, err
}

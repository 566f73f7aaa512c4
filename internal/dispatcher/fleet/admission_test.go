package fleet

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// TestLacksBecauseOfOperators checks that the message names each operator and reason once.
func TestLacksBecauseOfOperators(t *testing.T) {
	pause := &store.Cordon{By: "ops", Reason: store.PoolPaused + ": an upgrade", Pool: true}
	silent := &store.Cordon{By: "eve", Reason: store.PoolPaused, Pool: true}
	cordon := func(reason string) *store.Cordon { return &store.Cordon{By: "ops", Reason: reason} }
	for name, c := range map[string]struct {
		workers []Worker
		wait    job.Wait
		why     string
	}{
		"a pool":    {[]Worker{{Pool: "a", Cordon: pause}, {Pool: "a", Cordon: pause}}, job.WaitsPaused, "waits until pool a is resumed: paused by ops: an upgrade"},
		"no reason": {[]Worker{{Pool: "a", Cordon: silent}}, job.WaitsPaused, "waits until pool a is resumed: paused by eve"},
		"two pools": {[]Worker{{Pool: "b", Cordon: silent}, {Pool: "a", Cordon: pause}}, job.WaitsPaused,
			"waits until pool a is resumed: paused by ops: an upgrade; pool b is resumed: paused by eve"},
		"cordons": {[]Worker{{Cordon: cordon("1")}, {Cordon: cordon("2")}, {Cordon: cordon("3")}, {Cordon: cordon("4")}, {Cordon: pause}}, job.WaitsWorker,
			"waits for a worker: the suitable workers are cordoned by ops: 1; ops: 2; ops: 3; 1 more"},
		"another worker": {[]Worker{{Cordon: cordon("1")}, {}}, "", ""},
	} {
		if wait, why := lacks(placement.Need{Pool: placement.Any}, c.workers); wait != c.wait || why != c.why {
			t.Errorf("%s: %q, %q", name, wait, why)
		}
	}
}

package live

import (
	"context"
	"os"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// fork makes a slot in which a copy of the session waits. Nothing is executed in
// the session until settle is called, when the copy has begun: its files are copied
// as they are between two executes.
func (l *live) fork(ctx context.Context) (_ runtime.Slot, settle func(), err error) {
	forker, ok := l.slot.(runtime.Forker)
	if !ok {
		return nil, nil, job.Invalid("policy.isolation", "sessions can be forked at isolation cell only, and this one has %s", l.policy.Isolation)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if err := l.await(ctx); err != nil {
		return nil, nil, err
	}
	var asking sync.Mutex
	slot, err := forker.Fork(ctx, func(files []*os.File) error {
		asking.Lock()
		defer asking.Unlock()
		f, _, err := l.exchange(map[string]any{"op": "fork"}, files, requestTime, false)
		return answered(f, err)
	})
	settle = func() {
		go func() { // the session answers after its copy has begun
			asking.Lock()
			defer asking.Unlock()
			l.yieldTurn()
		}()
	}
	if err != nil {
		settle()
		return nil, nil, err
	}
	return slot, settle, nil
}

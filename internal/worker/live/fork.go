package live

import (
	"context"
	"os"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// fork creates a slot in which a copy of the session waits. The session executes nothing until
// settle is called after the copy has started. So its files are copied between two executions.
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
		go func() { // the session responds after its copy has started
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

package session

import (
	"context"
	"os"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// fork makes a slot in which a copy of the session waits. Nothing is executed in
// the session meanwhile: its files are copied as they are between two executes.
func (l *live) fork(ctx context.Context) (runtime.Slot, error) {
	forker, ok := l.slot.(runtime.Forker)
	if !ok {
		return nil, job.Invalid("policy.isolation", "sessions can be forked at isolation cell only, and this one has %s", l.policy.Isolation)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if err := l.await(ctx); err != nil {
		return nil, err
	}
	var asking sync.WaitGroup
	slot, err := forker.Fork(ctx, func(files []*os.File) error {
		asking.Add(1)
		defer asking.Done()
		f, _, err := l.exchange(map[string]any{"op": "fork"}, files, requestTime, false)
		return answered(f, err)
	})
	go func() { // the session answers after its copy has begun, and has its turn until then
		asking.Wait()
		l.yieldTurn()
	}()
	return slot, err
}

package containerd

import (
	"context"

	"github.com/assay-run/assay/pkg/policy"
	slotpool "github.com/assay-run/assay/pkg/runtime/pool"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// taskSlotKey identifies interchangeable slots with a container. Tenants share them, because an
// unused slot has run no job.
type taskSlotKey struct {
	isolation policy.Isolation
	digest    string // of the image
	python    bool   // a warm slot has a waiting interpreter
}

// Memory of a waiting slot in bytes: the shim and the guest, and an interpreter.
const (
	taskWeight   = 12 << 20
	pythonWeight = 12 << 20
)

// taskPool returns the pool of warm slots with a container.
func (r *Runtime) taskPool() *slotpool.Pool[taskSlotKey, *slot] {
	return slotpool.New(slotpool.Config[taskSlotKey, *slot]{
		Name: "task", Most: r.cfg.Warm, Memory: int64(r.cfg.WarmMemory), Idle: r.cfg.WarmIdle, Age: r.cfg.CellAge,
		// Half of the places are reserved for waiting jobs.
		Fill: max(r.cfg.Parallel/2, 1),
		Make: func(ctx context.Context, k taskSlotKey) (*slot, error) {
			return r.makeSlot(ctx, r.levels[k.isolation], r.images.Lookup(k.digest), defaultShape)
		},
		Warm: func(ctx context.Context, k taskSlotKey, s *slot) error {
			if !k.python {
				return nil
			}
			return s.warm(ctx)
		},
		Drop: func(s *slot) { s.Close() },
		Alive: func(k taskSlotKey, s *slot) bool {
			now := r.images.Lookup(k.digest)
			return s.alive() && now != nil && s.of.Rootfs == now.Rootfs
		},
		Weigh: func(k taskSlotKey) int64 {
			switch {
			case k.python:
				return taskWeight + pythonWeight
			case r.levels[k.isolation].foreign:
				return taskWeight + sandbox.ForeignMemory/2
			}
			return taskWeight
		},
	})
}

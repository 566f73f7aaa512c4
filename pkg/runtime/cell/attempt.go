package cell

import (
	"context"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// Run implements runtime.Slot.
func (s *slot) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	return s.attempt(ctx, &sandbox.Attempt{Attempt: a})
}

// Start implements runtime.Slot.
func (s *slot) Start(ctx context.Context, a runtime.Attempt) (runtime.Process, error) {
	return sandbox.Start(func(stream *sandbox.Stream) (*runtime.Report, error) {
		return s.attempt(ctx, &sandbox.Attempt{Attempt: a, Stream: stream})
	})
}

// attempt runs a in s, or in another suitable slot.
func (s *slot) attempt(ctx context.Context, a *sandbox.Attempt) (*runtime.Report, error) {
	s.inRun.RLock()
	defer s.inRun.RUnlock()
	if canceled, err := s.life.Take(ctx, a); canceled != nil || err != nil {
		return canceled, err
	}
	s.cell.cells.running.Add(1)
	defer s.cell.cells.running.Add(-1)
	p := &a.Plan.Policy
	where := s
	// If an interpreter waits, only the interpreter is in the job's group. A command runs as a child
	// of process 1 of a box, which must be in the group itself.
	command := a.Service == "" && a.Program.Command != nil
	alone := s.job != nil && !s.copied() && (command || sandbox.StartsAfresh(p.Env.Set) || sandbox.StartsAfresh(a.Secrets))
	suits := s.preload == nil || s.preload.suits(&a.Attempt)
	if want := sandbox.LayoutOf(p); alone || !suits || !want.Equal(s.Layout) {
		kind := byte(0)
		if s.job != nil && !alone {
			kind = s.job.zygote.kind
		}
		other, err := s.replace(ctx, kind, want)
		if err != nil {
			return nil, err
		}
		defer other.Close()
		where = other
	}
	if a.Forks {
		s.running.Store(&ran{where, p})
		defer s.running.Store(nil)
	}
	a.Place, a.Box, a.Network = &where.Place, where, s.cell.cells.cfg.Network
	return a.Run(ctx)
}

// replace creates a slot that differs from the warm ones. The error is a *job.FieldError if the
// image cannot have the layout.
func (s *slot) replace(ctx context.Context, zygote byte, l sandbox.Layout) (*slot, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if err := l.CheckImage(s.of.Rootfs); err != nil {
		return nil, err
	}
	other, err := s.cell.newSlot(ctx, zygote, l)
	return other, l.Refuse(err)
}

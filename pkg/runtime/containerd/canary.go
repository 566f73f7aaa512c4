package containerd

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// canaryWord is the program of Prove, and who it belongs to.
const canaryWord = "canary"

var _ runtime.Prover = (*Runtime)(nil)

// Prove implements runtime.Prover. Its sandbox is made for it, as it would be for a
// job that found none ready, and nothing of it is kept.
func (r *Runtime) Prove(ctx context.Context, image string, isolation policy.Isolation) error {
	p := policy.Default()
	p.Isolation = isolation
	plan, err := p.Plan(r.host)
	if err != nil {
		return err
	}
	key := runtime.Key{Tenant: canaryWord, Image: image, Isolation: isolation, Kind: "command", Alone: canaryWord}
	s, err := r.fresh(ctx, key)
	if err != nil {
		return fmt.Errorf("make a sandbox: %w", err)
	}
	defer s.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(makeTime)
	}
	rep, err := s.Run(ctx, runtime.Attempt{Job: job.NewID(), Lease: 1, Plan: plan, Deadline: deadline,
		Program: job.Program{Command: &job.Command{Argv: []string{"echo", canaryWord}}}})
	if err != nil {
		return fmt.Errorf("run a program: %w", err)
	}
	if rep.Outcome != job.Succeeded || rep.Stdout.Text != canaryWord+"\n" {
		return fmt.Errorf("run a program: echo %s ended with outcome %s, stdout %q, stderr %q: %s",
			canaryWord, rep.Outcome, tail(rep.Stdout.Text, 100), tail(rep.Stderr.Text, 300), rep.Message)
	}
	return nil
}

// fresh makes a slot for key that no pool has or gets.
func (r *Runtime) fresh(ctx context.Context, key runtime.Key) (runtime.Slot, error) {
	img, release, err := r.find(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release() // the slot holds it
	if key.Isolation == policy.Cell {
		return r.cells.Fresh(ctx, img, key)
	}
	s, err := r.makeSlot(ctx, r.levels[key.Isolation], img, defaultShape)
	if err != nil {
		return nil, err
	}
	return s, nil
}

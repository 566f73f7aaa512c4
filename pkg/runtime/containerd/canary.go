package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
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
	if image, err = r.canaryImage(ctx, image); err != nil {
		return err
	}
	if image == "" {
		slog.WarnContext(ctx, "no image is here yet, and some may be pulled: jobs are taken untried", "isolation", isolation)
		return nil
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
	if rep.ExitCode != nil && *rep.ExitCode == 127 && rep.Message == sandbox.NoProgram {
		slog.InfoContext(ctx, "the canary's image has no program echo: sandboxes are made, and start programs", "image", image, "isolation", isolation)
		return nil
	}
	if rep.Outcome != job.Succeeded || rep.Stdout.Text != canaryWord+"\n" {
		return fmt.Errorf("run a program: echo %s ended with outcome %s, stdout %q, stderr %q: %s",
			canaryWord, rep.Outcome, tail(rep.Stdout.Text, 100), tail(rep.Stderr.Text, 300), rep.Message)
	}
	return nil
}

// canaryImage is image, if it is here or comes. Where images may be pulled, a worker needs none beside those: then it is
// another one of the operator's in the default image's place, and none, "", where there is no other.
func (r *Runtime) canaryImage(ctx context.Context, image string) (string, error) {
	_, err := r.images.Get(ctx, image)
	if !errors.Is(err, job.ErrInvalid) || image != job.DefaultImage || len(r.cfg.ImageRegistries) == 0 {
		return image, nil // whoever makes a sandbox of it says what is wrong
	}
	all, err := r.images.Look(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if !i.Pulled {
			return i.Name, nil
		}
	}
	return "", nil
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

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

// canaryWord is the program of Prove, and its tenant.
const canaryWord = "canary"

var _ runtime.Prover = (*Runtime)(nil)

// Prove implements runtime.Prover. It uses a new sandbox, like a job without a warm one, and
// removes it.
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
		slog.WarnContext(ctx, "no local image for the canary job; taking jobs without it", "isolation", isolation)
		return nil
	}
	key := runtime.Key{Tenant: canaryWord, Image: image, Isolation: isolation, Kind: "command", SandboxGroup: canaryWord}
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
		slog.InfoContext(ctx, "canary image without echo; only sandbox creation and program start are tested", "image", image, "isolation", isolation)
		return nil
	}
	if rep.Outcome != job.Succeeded || rep.Stdout.Text != canaryWord+"\n" {
		return fmt.Errorf("run a program: echo %s ended with outcome %s, stdout %q, stderr %q: %s",
			canaryWord, rep.Outcome, tail(rep.Stdout.Text, 100), tail(rep.Stderr.Text, 300), rep.Message)
	}
	return nil
}

// canaryImage returns image if it exists or can be pulled. A worker that pulls images may lack the
// default image. Then canaryImage returns another one of the operator's images, or "".
func (r *Runtime) canaryImage(ctx context.Context, image string) (string, error) {
	_, err := r.images.Get(ctx, image)
	if !errors.Is(err, job.ErrInvalid) || image != job.DefaultImage || len(r.cfg.ImageRegistries) == 0 {
		return image, nil // creating the sandbox reports the error
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

// fresh creates a slot for key outside of all pools.
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

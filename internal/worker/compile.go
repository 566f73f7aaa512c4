package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/worker/capacity"
	"github.com/assay-run/assay/internal/worker/compile"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// compileAll compiles the program and its checker before the job gets room of its own. A rejection
// by the compiler is not an error. The compiled files are held until release.
func (a *attempt) compileAll(ctx context.Context) error {
	if err := a.compile(ctx, a.code); err != nil || a.code.Uncompiled() != nil {
		return err
	}
	return a.compile(ctx, a.checker)
}

func (a *attempt) release() {
	a.code.Release()
	a.checker.Release()
}

// compile compiles c, if its language is compiled.
func (a *attempt) compile(ctx context.Context, c *compile.Code) error {
	p := c.ToCompile()
	if p == nil {
		return nil
	}
	p.Tenant, p.Image, p.Digest, p.Policy = a.claimed.Tenant, a.spec.Image, a.imageDigest(), &a.plan.Policy
	ctx, end := telemetry.StartSpan(ctx, "compile", telemetry.KindKey.String(p.Language.Name))
	out, err := a.compiled.Get(ctx, p, a.runCompiler)
	end(err)
	if missing := new(compile.Missing); errors.As(err, &missing) {
		return refuse("%v", missing)
	}
	if err != nil {
		return err
	}
	out.Compiled.Version = a.versionIn(out.Digest, p.Language.Name)
	c.Keep(out)
	a.metrics.compiled(ctx, p.Language.Name, out.Compiled.Cached)
	return nil
}

// imageDigest returns the digest of the job's image, if the runtime has resolved it.
func (a *attempt) imageDigest() string {
	if lister, ok := a.Runtime.(runtime.ImageLister); ok {
		return lister.ImageDigests()[a.spec.Image]
	}
	return ""
}

// versionIn returns the version of a language from the label of the image with that digest. It is
// empty if there is no label, if a job brought the image, or until the runtime lists the image.
func (a *attempt) versionIn(digest, language string) string {
	lister, ok := a.Runtime.(runtime.ImageLister)
	if !ok {
		return ""
	}
	images, _ := lister.Images()
	for i := range images {
		if version := images[i].Languages[language]; version != "" && images[i].Digest == digest {
			return version
		}
	}
	return ""
}

// runCompiler implements compile.Make: it waits for room and runs the compiler in a slot of its
// own.
func (a *attempt) runCompiler(ctx context.Context, r compile.Request) (*runtime.Report, error) {
	host, _ := a.proof.State()
	plan, err := r.Policy.PlanFor(host, policy.UseCommand)
	if err != nil {
		return nil, refuse("the compiler cannot run here: %v", err)
	}
	need := capacity.NeedOf(r.Policy)
	if a.capacity.TooLarge(need) {
		return nil, refuse("compile.memory: %s is more than the %s of this worker", r.Policy.Memory, a.cfg.Memory)
	}
	room, err := a.capacity.Enter(ctx, need)
	if err != nil {
		return nil, err
	}
	defer room.Leave()
	a.leases.enter(a.lease, running)
	return runOrBlame(ctx, a, func() (*runtime.Report, error) {
		slot, err := a.slot(ctx, runtime.Key{Kind: "command"})
		if err != nil {
			return nil, err
		}
		defer slot.Close()
		rep, err := slot.Run(ctx, runtime.Attempt{
			Job: a.lease.Job, Lease: a.lease.Lease, Deadline: a.leases.deadline(a.lease),
			Program: job.Program{Command: &r.Command}, Files: r.Files, Plan: plan, Collect: r.Collect,
		})
		if err != nil {
			return nil, fmt.Errorf("compile: %w", err)
		}
		return rep, nil
	})
}

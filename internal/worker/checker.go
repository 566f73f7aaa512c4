package worker

import (
	"context"
	"errors"

	"github.com/assay-run/assay/internal/grade"
	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/job"
)

// compileChecker makes the program of the checker or interactor of the job's tests ready, if it is code. It is compiled as a
// solution is, before the job has room of its own. That it does not compile is for the grading to say.
func (a *attempt) compileChecker(ctx context.Context) error {
	in := a.spec.Program.Tests.CheckerCode()
	if in == nil {
		return nil
	}
	c, err := newCode(in, job.Program{})
	if err != nil {
		return err
	}
	if err := a.makeOutput(ctx, c); err != nil {
		return err
	}
	a.checker = c
	return nil
}

// built is how a grading starts the checker.
func (c *code) built(image string) *grade.Built {
	if c == nil {
		return nil
	}
	b := &grade.Built{Solution: *c.solution(image), Env: c.language.Run.Env, Processes: c.language.Run.Processes}
	if c.out != nil && c.out.Why != "" {
		b.Problem = clip(c.out.Why)
		return b
	}
	b.Files = c.files(nil)
	return b
}

// blob returns what a case of a grading reads or is compared with.
func (a *attempt) blob(ctx context.Context, ref string) (*grade.Blob, error) {
	f, size, release, err := a.inputs.Blob(ctx, a.claimed.Tenant, ref, "stdio")
	if wrong := new(transfer.InputError); errors.As(err, &wrong) {
		return nil, refuse("%v", wrong)
	}
	if err != nil {
		return nil, err
	}
	return &grade.Blob{File: f, Bytes: size, Close: release}, nil
}

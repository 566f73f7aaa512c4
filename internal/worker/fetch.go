package worker

import (
	"context"
	"errors"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/worker/grade"
	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/runtime"
)

// fetch returns the input files of the job, and the function that releases them.
func (a *attempt) fetch(ctx context.Context) (files []runtime.File, release func(), err error) {
	if len(a.spec.Files) == 0 {
		return nil, func() {}, nil
	}
	ctx, end := telemetry.StartSpan(ctx, "fetch", telemetry.KindKey.String("inputs"), telemetry.CountKey.Int(len(a.spec.Files)))
	files, release, err = a.inputs.Fetch(ctx, a.claimed.Tenant, a.spec.Files)
	if wrong := new(transfer.InputError); errors.As(err, &wrong) {
		err = refuse("%v", wrong)
	}
	end(err)
	return files, release, err
}

// blob opens the input or the expected output of a test case.
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

package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// Every error that means something survives the way over HTTP and back.
func TestErrorsTravelThereAndBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
	}{
		{job.ErrTooLarge, 413}, {job.ErrConflict, 409}, {job.ErrKeyUsed, 422}, {job.ErrRefused, 403}, {api.ErrMismatch, 422}, {job.ErrInvalid, 422},
		{api.ErrUnauthorized, 401}, {job.ErrNotFound, 404}, {job.ErrLost, 409}, {job.ErrUnavailable, 503},
		{context.DeadlineExceeded, 503},
	} {
		p := api.NewProblem(fmt.Errorf("do it: %w", c.err))
		if p.Status != c.status {
			t.Errorf("%v is %d, want %d", c.err, p.Status, c.status)
		}
		if back := p.Err(); !errors.Is(back, c.err) {
			t.Errorf("%v came back as %v", c.err, back)
		}
	}
}

func TestFieldsTravel(t *testing.T) {
	t.Parallel()
	two := errors.Join(&job.FieldError{Line: 7, Field: "policy.memory", Problem: "is too small"}, job.Invalid("image", "is empty"))
	p := api.NewProblem(fmt.Errorf("%w: %w", job.ErrRefused, two))
	want := []api.FieldProblem{{Field: "policy.memory", Line: 7, Problem: "is too small"}, {Field: "image", Problem: "is empty"}}
	if d := cmp.Diff(want, p.Errors); d != "" {
		t.Error(d)
	}
	var f *job.FieldError
	if back := p.Err(); !errors.As(back, &f) || f.Line != 7 || !errors.Is(back, job.ErrRefused) {
		t.Errorf("came back as %#v", back)
	}
}

// What went wrong inside is for the log, not for clients.
func TestOurFailuresSayNothing(t *testing.T) {
	t.Parallel()
	p := api.NewProblem(errors.New("password=hunter2 was refused by db7"))
	if p.Status != 500 || len(p.Errors) != 0 || p.Detail == "" {
		t.Errorf("got %+v", p)
	}
	if d := p.Detail; errors.Is(p.Err(), job.ErrInvalid) || len(d) > 0 && (strings.Contains(d, "hunter2") || strings.Contains(d, "db7")) {
		t.Errorf("tells %q", d)
	}
}

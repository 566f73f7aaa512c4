package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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
		{api.ErrSlow, 408}, {job.ErrTooLarge, 413}, {job.ErrConflict, 409}, {job.ErrKeyUsed, 422}, {job.ErrRefused, 403}, {api.ErrMismatch, 422}, {job.ErrInvalid, 422},
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

// What is told is the error that has the reason itself, without what is around it: by which of our layers it
// came, and where these are.
func TestDetailsAreAboutTheRequest(t *testing.T) {
	t.Parallel()
	gone := fmt.Errorf("%w: job 7", job.ErrNotFound)
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 5432}, Err: errors.New("refused")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{gone, "not found: job 7"},
		{fmt.Errorf("read job 7: %w", fmt.Errorf("postgres: job: %w", gone)), "not found: job 7"},
		{fmt.Errorf("%w: open a session: %w", job.ErrUnavailable, errors.New("no worker")), "temporarily unavailable: open a session: no worker"},
		{fmt.Errorf("submit: %w", fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("code", "is long"))), "too large: code: is long"},
		{fmt.Errorf("submit: %w", job.Invalid("code", "is long")), "code: is long"},
		{errors.Join(errors.New("rows"), fmt.Errorf("look: %w", gone)), "not found: job 7"},
		{fmt.Errorf("postgres: submit: %w", fmt.Errorf("%w: %w", job.ErrUnavailable, dial)), "temporarily unavailable: a part of the fleet does not answer; try again"},
		{fmt.Errorf("postgres: job: %w", context.DeadlineExceeded), "it took too long here; try again"},
		{fmt.Errorf("open artifact: %w", job.ErrNotFound), "open artifact: not found"},
	} {
		if got := api.NewProblem(c.err).Detail; got != c.want {
			t.Errorf("%v\n tells %q\n  want %q", c.err, got, c.want)
		}
	}
}

package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// asideStore has results that were set aside.
type asideStore struct {
	store.Store
	all []store.Aside
}

func (s *asideStore) Asides(_ context.Context, after job.ID, limit int) (out []store.Aside, err error) {
	for _, a := range s.all {
		if a.ID > after && len(out) < limit {
			out = append(out, a)
		}
	}
	return out, nil
}

func (s *asideStore) take(a *store.Action, id job.ID, held error) error {
	a.Outcome, a.At, a.Seq = store.ActionDone, time.Now(), 1
	i := slices.IndexFunc(s.all, func(a store.Aside) bool { return a.ID == id })
	switch {
	case i < 0:
		return fmt.Errorf("%w: nothing with the id %s is set aside", job.ErrNotFound, id)
	case held != nil && s.all[i].Ended == store.AsideHeld:
		return held
	}
	s.all = slices.Delete(s.all, i, i+1)
	return nil
}

func (s *asideStore) RetryAside(_ context.Context, a *store.Action, id job.ID) error {
	return s.take(a, id, nil)
}

func (s *asideStore) DropAside(_ context.Context, a *store.Action, id job.ID) error {
	return s.take(a, id, fmt.Errorf("%w: the job is not over", job.ErrConflict))
}

// TestOperatorsHandleWhatIsSetAside: only operators list the results in pages, record and drop them.
func TestOperatorsHandleWhatIsSetAside(t *testing.T) {
	t.Parallel()
	s := &asideStore{}
	for range 150 {
		s.all = append(s.all, store.Aside{ID: job.NewID(), At: time.Now(), Call: "finish", Job: job.NewID(), Tenant: "a", Outcome: job.Succeeded,
			Ended: store.AsideUncounted, SQLState: "23514", Error: "violates check constraint"})
	}
	s.all[0].Ended = store.AsideHeld
	held, second := s.all[0].ID, s.all[1].ID
	f, op, _ := operated(t, func(p *parts) { s.Store = p.Store; p.Store = s })
	all, err := op.Asides(t.Context())
	if err != nil || len(all) != 150 || all[0].ID != held || all[0].Ended != store.AsideHeld || all[149].SQLState != "23514" {
		t.Fatalf("%d are listed, %v", len(all), err)
	}
	if _, err := op.DropAside(t.Context(), held, ""); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a held job is dropped: %v", err)
	}
	if done, err := op.RetryAside(t.Context(), held, "the trigger is gone"); err != nil || done.Action != "retry set-aside" || done.Reason == "" {
		t.Errorf("retry: %+v, %v", done, err)
	}
	if _, err := op.DropAside(t.Context(), second, ""); err != nil {
		t.Error(err)
	}
	for _, id := range []job.ID{held, "x"} {
		if _, err := op.RetryAside(t.Context(), id, ""); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("retry of %s: %v", id, err)
		}
	}
	if all, err = op.Asides(t.Context()); err != nil || len(all) != 148 {
		t.Errorf("%d are left, %v", len(all), err)
	}
	for _, path := range []string{"GET /v1/admin/set-aside", "POST /v1/admin/set-aside/" + string(second) + "/retry"} {
		var method, at string
		_, _ = fmt.Sscan(path, &method, &at)
		f.want(http.StatusForbidden, nil, method, at, "", "Authorization", "Bearer key-a")
	}
	f.want(http.StatusUnprocessableEntity, nil, "GET", "/v1/admin/set-aside?after=x", "", "Authorization", "Bearer key-o")
}

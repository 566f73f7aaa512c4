package jetstream_test

import (
	"slices"
	"testing"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
)

// TestWhoVouches checks that a statement counts for the worker and pool of its sender, regardless of its text.
// Workers with a join token are one witness together, because one machine can be many of them.
func TestWhoVouches(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	own := identity.Worker{ID: "own", Pool: "default", Token: s.key.Token("own", "default")}
	joined, err := identity.NewWorker("pod", "default", s.key.JoinToken("default"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who     identity.Worker
		witness string
	}{{own, "own"}, {joined, "(join token)"}} {
		q := connect(t, jetstream.Config{URL: s.url, Worker: &c.who})
		r := control.EnvironmentRequest{Worker: c.who.ID, Pool: "gpu", Witness: "victim", Name: "n"}
		if _, err := q.Environment(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		s.heard.mu.Lock()
		heard := slices.Clone(s.heard.spoke)
		s.heard.mu.Unlock()
		if want := "environment " + c.who.ID + " default " + c.witness; !slices.Contains(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
	}
}

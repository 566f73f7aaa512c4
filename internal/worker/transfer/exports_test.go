package transfer

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

// A sealed export replaces the previous one, whose files are deleted. An unsealed export has no
// effect.
func TestExports(t *testing.T) {
	t.Parallel()
	s, id := opened(t), job.NewID()
	objects := s.Objects.(*object.Store)
	e := s.Exports("acme", id, policy.Artifacts{MaxFiles: 9, MaxBytes: 100})
	keep := func(into interface {
		Collect(context.Context, string, int64, io.Reader) error
	}, name string) {
		t.Helper()
		if err := into.Collect(t.Context(), name, 1, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	for step, files := range [][]string{{"/a", "/b"}, {"/b"}, {}} {
		unsealed, x := e.Begin(), e.Begin()
		for _, f := range files {
			keep(x, f)
		}
		if err := x.Seal(t.Context(), []string{"/refused"}); err != nil {
			t.Fatal(err)
		}
		if step == 0 {
			keep(unsealed, "/lost")
		}
		key, err := object.ExportKey("acme", id)
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := objects.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var list job.Export
		if err := json.NewDecoder(r).Decode(&list); err != nil || list.ExportedAt == nil || !slices.Equal(list.Feedback, []string{"/refused"}) {
			t.Errorf("step %d: %+v, %v", step, list, err)
		}
		_ = r.Close()
		got := []string{}
		for _, a := range list.Artifacts {
			if _, err := objects.Stat(t.Context(), a.Object); err != nil {
				t.Errorf("step %d: %s: %v", step, a.Path, err)
			}
			got = append(got, a.Path)
		}
		if list.Artifacts == nil || !slices.Equal(got, files) {
			t.Errorf("step %d: the list has %q, want %q", step, got, files)
		}
		n := 0
		for _, err := range objects.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if want := len(files) + 2; n != want { // the list, and the unsealed file
			t.Errorf("step %d: %d objects, want %d", step, n, want)
		}
	}
}

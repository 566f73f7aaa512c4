package transfer

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

// Discard removes the objects of one owner only: not of another attempt at the job, another job or
// another tenant.
func TestDiscard(t *testing.T) {
	t.Parallel()
	s, id := opened(t), job.NewID()
	owners := []Owner{{"acme", id, 1}, {"acme", id, 11}, {"acme", id, 2}, {"acme", job.NewID(), 1}, {"other", id, 1}}
	var want []string
	for i, o := range owners {
		as := s.Artifacts(o, policy.Artifacts{MaxFiles: 1, MaxBytes: 10})
		if err := as.Collect(t.Context(), "/a", 1, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			want = append(want, as.Stored().Artifacts[0].Object)
		}
	}
	s.Discard(t.Context(), owners[0])
	var got []string
	for o, err := range s.Objects.(*object.Store).List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Key)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q are left, want %q", got, want)
	}
}

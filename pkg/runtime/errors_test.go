package runtime

import (
	"errors"
	"fmt"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("disk full"), false},
		{fmt.Errorf("pull: %w", ErrImage), false},
		{job.ErrUnavailable, false},
		{job.Invalid("image", "is of another machine"), true},
		{fmt.Errorf("fetch: %w", &BuildError{Message: "no such package"}), true},
	} {
		if got := Refused(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

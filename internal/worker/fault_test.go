package worker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestImageFaultNamesTheImageOnce(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"image: there is no image x on this worker": fmt.Errorf("image x: %w", job.Invalid("image", "there is no image x on this worker")),
		"image x: invalid":                          fmt.Errorf("image x: %w", job.ErrInvalid),
		"image: x: invalid":                         fmt.Errorf("x: %w", job.ErrInvalid),
	} {
		if got := imageFault(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := imageFault(errors.New("broken")); got != "image: broken" {
		t.Errorf("got %q", got)
	}
}

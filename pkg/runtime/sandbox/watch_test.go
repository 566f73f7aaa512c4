package sandbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/sandbox/owntime"
)

// running is a box whose program does not end.
type running struct{ Box }

func (running) Over() bool { return false }

// TestStarvedProgramsEndByTheirLimit: a loop that gets a small share of a core runs into its limit in its first attempt. Only a
// program that gets no core at all is handed back.
func TestStarvedProgramsEndByTheirLimit(t *testing.T) {
	for name, c := range map[string]struct {
		share time.Duration // one part in so many is the program's own time
		want  stopReason
		after time.Duration
	}{
		"a core":                  {1, stopWall, 2 * time.Second},
		"a tenth of a core":       {10, stopWall, 20 * time.Second},
		"a hundredth of a core":   {100, stopWall, 200 * time.Second},
		"a five-hundredth":        {500, stopWall, 1000 * time.Second},
		"no core":                 {0, stopStarved, 100 * time.Second},
		"next to nothing of core": {100000, stopStarved, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				limits := &policy.Policy{Wall: job.Duration(2 * time.Second), CPU: 1}
				w := &watch{
					box: running{}, limits: limits, stop: newStopper(func() error { return nil }), own: &owntime.Clock{Began: began},
					waits: new(runtime.Waits), patience: runtime.NewPatience(began, limits.Wall.D()),
				}
				for ended := false; !ended; {
					time.Sleep(500 * time.Millisecond)
					own := time.Duration(0)
					if c.share > 0 {
						own = 500 * time.Millisecond / c.share
					}
					w.waits.Pause(500*time.Millisecond - own)
					_, ended = w.left(0)
				}
				if took := time.Since(began); w.stop.reason() != c.want || took > c.after+10*time.Second {
					t.Errorf("stopped as %s after %v, want %s after %v", w.stop.reason(), took, c.want, c.after)
				}
			})
		})
	}
}

//go:build compose

package compose

import (
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

// A team's fleet. Every part is healthy, and access needs a token. A worker and a dispatcher are
// killed under load, and every job has exactly the one right record. Built environments survive a
// restart, and dashboards and traces have data. A worker's token opens nothing else at NATS, and
// nothing is left in the end.
func TestCompose(t *testing.T) {
	s := newStack(t)
	before := s.left()
	s.up(workers)
	part := func(name string, f func()) {
		t.Run(name, func(t *testing.T) {
			s.t = t
			f()
		})
		s.t = t
	}
	part("as described", s.asDescribed)
	var batch job.ID
	var trace string
	part("load", func() { batch, trace = s.load(*jobs) })
	part("exactly once", func() { s.exactlyOnce(batch, *jobs) })
	part("environments stay", s.environmentsStay)
	part("session", s.session)
	part("dashboards", s.dashboards)
	part("traces", func() { s.traces(trace) })
	part("walls", s.walls)
	if *after != "" {
		cmd := exec.Command(*after)
		cmd.Env = append(os.Environ(), "PROMETHEUS=http://"+s.port("prometheus", "9090"), "JAEGER=http://"+s.port("jaeger", "16686"), "TRACE="+trace)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", *after, err, out)
		}
	}
	s.compose("down", "--volumes", "--remove-orphans")
	s.until("nothing is left", func() bool { return cmp.Equal(before, s.left()) })
	if d := cmp.Diff(before, s.left()); d != "" {
		t.Errorf("left by down --volumes (-before +after):\n%s", d)
	}
}

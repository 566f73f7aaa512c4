package process

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// TestDyingIsWaitedFor checks that a dying process is awaited as long as it makes progress, and given up
// otherwise or at the final limit.
func TestDyingIsWaitedFor(t *testing.T) {
	t.Parallel()
	quick := Patience{look: 10 * time.Millisecond, stuck: 200 * time.Millisecond, most: time.Hour}
	patientNever := quick
	patientNever.most = 300 * time.Millisecond
	for name, c := range map[string]struct {
		Patience
		sleeps       string // how long the process takes
		getsOn       bool
		unknown      error // that the group answers with
		stillRunning bool
	}{
		"slow":       {Patience: quick, sleeps: "2", getsOn: true},
		"stuck":      {Patience: quick, sleeps: "1000", stillRunning: true},
		"no meter":   {Patience: quick, sleeps: "1000", unknown: errors.New("no such group"), stillRunning: true},
		"never ends": {Patience: patientNever, sleeps: "1000", getsOn: true, stillRunning: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sleep", c.sleeps)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			p, err := Open(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			u := cgroup.Usage{CPU: time.Second}
			err = c.With(func() (cgroup.Usage, error) {
				if c.getsOn {
					u.CPU++
				}
				return u, c.unknown
			}).Wait(p)
			if errors.Is(err, ErrStillRunning) != c.stillRunning || !c.stillRunning && err != nil {
				t.Errorf("got %v, want it to be given up: %v", err, c.stillRunning)
			}
		})
	}
}

package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// Patience limits the wait for killed processes. Dying takes CPU, because the kernel frees the
// program's resources, such as millions of mappings. On a busy machine this is slow. So elapsed
// time alone does not distinguish slow from stuck.
type Patience struct {
	look  time.Duration // interval between checks of progress
	stuck time.Duration // time without CPU usage after which it is stuck
	most  time.Duration // total limit; a program's memory limits the work
}

// DeathPatience is the patience for every sandbox.
var DeathPatience = Patience{look: time.Second, stuck: 10 * time.Second, most: 10 * time.Minute}

// ErrStillRunning means that a killed process does not die.
var ErrStillRunning = errors.New("the sandbox cannot be killed")

// NewsTime is how long the killer of a box waits for another process's report. Then it checks
// itself.
const NewsTime = 2 * time.Second

// Dying is a group with killed processes.
type Dying struct {
	Patience
	usage  func() (cgroup.Usage, error)
	began  time.Time
	looked time.Time
	last   time.Time // last increase of CPU usage
	cpu    time.Duration
}

// With starts the wait for a group with killed processes. usage shows their progress.
func (p Patience) With(usage func() (cgroup.Usage, error)) *Dying {
	now := time.Now()
	return &Dying{Patience: p, usage: usage, began: now, looked: now, last: now}
}

// IsStuck reports whether further waiting is pointless.
func (d *Dying) IsStuck() bool {
	now := time.Now()
	if now.Sub(d.looked) < d.look {
		return false
	}
	d.looked = now
	if u, err := d.usage(); err == nil && u.CPU != d.cpu {
		d.cpu, d.last = u.CPU, now
	}
	return now.Sub(d.last) > d.stuck || now.Sub(d.began) > d.most
}

// Wait returns when p, killed with its whole group, has exited. It returns ErrStillRunning if it is
// stuck.
func (d *Dying) Wait(p *Process) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), d.look)
		err := p.Wait(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || d.IsStuck() {
			return fmt.Errorf("%w: %w", ErrStillRunning, err)
		}
	}
}

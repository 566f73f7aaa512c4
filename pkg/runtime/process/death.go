package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// Patience is for what was killed. To die takes CPU: the kernel takes apart what a
// program has made, which may be millions of mappings, and on a busy machine it gets
// little of it. So time alone does not tell what takes long from what does not die.
type Patience struct {
	look  time.Duration // how often to see whether it gets on
	stuck time.Duration // without any CPU for so long, it does not
	most  time.Duration // for all of it; a program's memory bounds what there is to do
}

// DeathPatience is what every sandbox is given.
var DeathPatience = Patience{look: time.Second, stuck: 10 * time.Second, most: 10 * time.Minute}

// ErrStillRunning says that what was killed does not die.
var ErrStillRunning = errors.New("the sandbox does not die")

// NewsTime is for who has killed a box to hear of it from another process. After it
// he looks himself.
const NewsTime = 2 * time.Second

// Dying is a group whose processes were killed.
type Dying struct {
	Patience
	usage  func() (cgroup.Usage, error)
	began  time.Time
	looked time.Time
	last   time.Time // when more CPU had been used than before
	cpu    time.Duration
}

// With begins to wait for a group whose processes were killed, and whose usage says whether they get on.
func (p Patience) With(usage func() (cgroup.Usage, error)) *Dying {
	now := time.Now()
	return &Dying{Patience: p, usage: usage, began: now, looked: now, last: now}
}

// GivenUp reports whether there is no point in waiting on.
func (d *Dying) GivenUp() bool {
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

// Wait returns when p has exited, which was killed with all of its group, or with
// ErrStillRunning when nothing more comes of it.
func (d *Dying) Wait(p *Process) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), d.look)
		err := p.Wait(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || d.GivenUp() {
			return fmt.Errorf("%w: %w", ErrStillRunning, err)
		}
	}
}

package containerd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// patience is for what was killed. To die takes CPU: the kernel takes apart what a
// program has made, which may be millions of mappings, and on a busy machine it gets
// little of it. So time alone does not tell what takes long from what does not die.
type patience struct {
	look  time.Duration // how often to see whether it gets on
	stuck time.Duration // without any CPU for so long, it does not
	most  time.Duration // for all of it; a program's memory bounds what there is to do
}

var deathPatience = patience{look: time.Second, stuck: 10 * time.Second, most: 10 * time.Minute}

// newsTime is for who has killed a box to hear of it from another process. After it
// he looks himself.
const newsTime = 2 * time.Second

// dying is a group whose processes were killed.
type dying struct {
	patience
	usage  func() (cgroup.Usage, error)
	began  time.Time
	looked time.Time
	last   time.Time // when more CPU had been used than before
	cpu    time.Duration
}

func (p patience) with(usage func() (cgroup.Usage, error)) *dying {
	now := time.Now()
	return &dying{patience: p, usage: usage, began: now, looked: now, last: now}
}

// givenUp reports whether there is no point in waiting on.
func (d *dying) givenUp() bool {
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

// wait returns when p has exited, which was killed with all of its group, or with
// errUndead when nothing more comes of it.
func (d *dying) wait(p *process) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), d.look)
		err := p.wait(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || d.givenUp() {
			return fmt.Errorf("%w: %w", errUndead, err)
		}
	}
}

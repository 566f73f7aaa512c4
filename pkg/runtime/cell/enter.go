package cell

import (
	"context"
	"strings"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/tracee"
)

// enter has the process from fork, and takes what it forks into the box of c: its
// namespaces, its limits, its control group. tell tells the process that the box is
// there, and when it has forked it is held until its copy goes on.
func (c *slot) enter(ctx context.Context, p *policy.Policy, from int, tell func() error) error {
	how := tracee.Copy{Tell: tell, Ready: c.ready, Box: c.sup.PID, Take: func(t *tracee.Process) error {
		if err := c.watchCopy(t.PID()); err != nil {
			return err
		}
		if err := c.Limit(p); err != nil {
			return err
		}
		return c.settle(t)
	}}
	return how.Of(ctx, from)
}

// settle puts a copy that is held into its control group and lets it go, without capabilities.
func (c *slot) settle(t *tracee.Process) error {
	if err := c.lease.Add(t.PID()); err != nil {
		return err
	}
	return t.Settle()
}

// ready makes sure that nobody can reach the memory of a process that is about to
// get capabilities, and that it will share nothing with what it was forked from.
func (c *slot) ready(t *tracee.Process) error {
	if err := t.Hidden(c.cell.uid); err != nil {
		return err
	}
	return t.Prepare(c.ofImage)
}

// ofImage reports whether m is a file of the image, which nobody can write to.
func (c *slot) ofImage(m tracee.Mapping) bool {
	if m.Writable || !strings.HasPrefix(m.Name, "/usr/") && !strings.HasPrefix(m.Name, "/lib") || strings.HasSuffix(m.Name, " (deleted)") {
		return false
	}
	for _, dir := range c.Layout.Paths() {
		if m.Name == dir || strings.HasPrefix(m.Name, dir+"/") {
			return false
		}
	}
	return true
}

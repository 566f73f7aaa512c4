package cell

import (
	"context"
	"strings"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/tracee"
)

// enter stops the process from at its fork, and moves the child into the box of c: its namespaces,
// limits and control group. tell reports to the process that the box exists. After the fork the
// process is held until its copy continues.
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

// settle puts a held copy into its control group and resumes it without capabilities.
func (c *slot) settle(t *tracee.Process) error {
	if err := c.lease.Add(t.PID()); err != nil {
		return err
	}
	return t.Settle()
}

// ready checks a process that is about to get capabilities: no process can access its memory, and
// it shares nothing with its original.
func (c *slot) ready(t *tracee.Process) error {
	if err := t.Hidden(c.cell.uid); err != nil {
		return err
	}
	return t.Prepare(c.ofImage)
}

// ofImage reports whether m is a read-only file of the image.
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

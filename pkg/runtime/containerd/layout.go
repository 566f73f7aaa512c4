package containerd

import (
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Where the guest and its files are in a sandbox.
const (
	guestDir   = "/run/assay"
	guestPath  = guestDir + "/guest"
	harness    = guestDir + "/harness.py"
	slotDir    = guestDir + "/slot"
	socketName = "socket"
)

// layout is the directories of a sandbox that are not the image's: each is one of
// its scratch. What lies in read was put there before the program began, and the
// program cannot change it.
type layout struct{ write, read []string }

// defaultLayout is what warm slots have.
var defaultLayout = layout{write: policy.Default().Write}

// layoutOf returns what p asks for, in memory of its own.
func layoutOf(p *policy.Policy) layout {
	return layout{slices.Clone(p.Write), slices.Clone(p.Read)}
}

func (l layout) equal(o layout) bool {
	return slices.Equal(l.write, o.write) && slices.Equal(l.read, o.read)
}

// paths lists every directory of the scratch, those that are only read last.
func (l layout) paths() []string { return slices.Concat(l.write, []string{"/dev/shm"}, l.read) }

// extra lists those that an image may not have.
func (l layout) extra() []string { return slices.Concat(l.write, l.read) }

// check refuses paths that would hide the guest from its slot.
func (l layout) check() error {
	for field, list := range map[string][]string{"policy.write": l.write, "policy.read": l.read} {
		for _, p := range list {
			if p == guestDir || strings.HasPrefix(p, guestDir+"/") || strings.HasPrefix(guestDir, p+"/") {
				return job.Invalid(field, "%q belongs to the sandbox itself; choose another directory", p)
			}
		}
	}
	return nil
}

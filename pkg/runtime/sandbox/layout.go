package sandbox

import (
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Where the guest and its files are in a sandbox.
const (
	GuestDir   = "/run/assay"
	GuestPath  = GuestDir + "/guest"
	harness    = GuestDir + "/harness.py"
	SlotDir    = GuestDir + "/slot"
	SocketName = "socket"
)

// Layout is the directories of a sandbox that are not the image's: each is one of
// its scratch. What lies in read was put there before the program began, and the
// program cannot change it.
type Layout struct{ Write, Read []string }

// DefaultLayout is what warm slots have.
var DefaultLayout = Layout{Write: policy.Default().Write}

// LayoutOf returns what p asks for, in memory of its own.
func LayoutOf(p *policy.Policy) Layout {
	return Layout{slices.Clone(p.Write), slices.Clone(p.Read)}
}

// Equal reports whether two sandboxes have the same directories.
func (l Layout) Equal(o Layout) bool {
	return slices.Equal(l.Write, o.Write) && slices.Equal(l.Read, o.Read)
}

// Paths lists every directory of the scratch, those that are only read last.
func (l Layout) Paths() []string { return slices.Concat(l.Write, []string{"/dev/shm"}, l.Read) }

// Extra lists those that an image may not have.
func (l Layout) Extra() []string { return slices.Concat(l.Write, l.Read) }

// Check refuses paths that would hide the guest from its slot.
func (l Layout) Check() error {
	for field, list := range map[string][]string{"policy.write": l.Write, "policy.read": l.Read} {
		for _, p := range list {
			if p == GuestDir || strings.HasPrefix(p, GuestDir+"/") || strings.HasPrefix(GuestDir, p+"/") {
				return job.Invalid(field, "%q belongs to the sandbox itself; choose another directory", p)
			}
		}
	}
	return nil
}

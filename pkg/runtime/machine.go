package runtime

import (
	"context"
	"net"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Machines is a Runtime that makes sandboxes for agents.
type Machines interface {
	// Machine makes a machine. The error is a *job.FieldError if this host cannot make it as the spec
	// asks, which names the field; other errors are our failures.
	Machine(ctx context.Context, s MachineSpec) (Machine, error)
}

// MachineSpec is what a machine is made of.
type MachineSpec struct {
	ID    job.ID // for labels
	Image string // the reference of the user
	Plan  *policy.Plan
}

// Machine is a sandbox for an agent: the image with a root that is writable everywhere, on a disk of
// the policy's size, with all users of the image, including root. Many programs run in it at once.
// The server at the other end of Conn starts them: see package internal/guest/processes. The limits
// of memory, CPU and processes hold for all of them together. The policy's limits of time and output
// are the caller's concern.
type Machine interface {
	// Conn is our end of the stream to the server. All data is untrusted. It ends with the machine.
	Conn() net.Conn
	// ImageConfig returns what the image says about programs, which the caller applies.
	ImageConfig() ImageConfig
	// Usage returns what the machine uses.
	Usage() (MachineUsage, error)
	// Close ends the machine and removes it with its files. It is idempotent, ends all programs at
	// once, and leaves slow clean-up to the background.
	Close()
}

// ImageConfig is what an image says about programs.
type ImageConfig struct {
	Digest string   // of its manifest or index
	Env    []string // NAME=value
	Dir    string   // working directory; empty: none
}

// MachineUsage is what a machine has used.
type MachineUsage struct {
	CPU           time.Duration // of all programs
	MemoryPeak    int64         // bytes
	ProcessesPeak int64         // the most processes and threads at once
	OOMKills      int64         // processes that the kernel killed at the memory limit
	ForksRefused  int64         // at the limit of processes
	Disk          int64         // bytes that the files take on the host now
}

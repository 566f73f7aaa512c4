// Package runtime runs one attempt of a job behind walls.
//
// A Slot contains all prepared resources: a place for exactly one attempt, destroyed afterwards.
// Implementations are runtime/containerd (the real one) and runtime/fake (for control-plane tests).
// runtime/runtimetest is the specification that both pass.
package runtime

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Runtime creates slots. All methods are safe for concurrent use.
type Runtime interface {
	// Host returns the capabilities of this machine. They are constant in a process.
	Host() policy.Host

	// Acquire returns a slot for key, warm if available. The error wraps job.ErrInvalid if the image
	// does not exist (the user's mistake), and is a *BuildError if its packages are unavailable.
	// Other errors are our failures.
	Acquire(ctx context.Context, key Key) (Slot, error)

	// Close destroys every slot and all other resources of the runtime on this host.
	Close(ctx context.Context) error
}

// ImageLister is a Runtime that lists its images.
type ImageLister interface {
	// ImageDigests returns the digest for each image name that jobs have used, as of some seconds
	// ago. It never blocks.
	ImageDigests() map[string]string

	// Images returns the runtime's images, at most policy.MaxHostImages of them, and the number of
	// others, as of some seconds ago. Before the first survey it returns none. It never blocks.
	Images() (some []policy.HostImage, more int)
}

// CPUMeter is a Runtime that measures the CPU time of everything it has started.
type CPUMeter interface {
	// CPU returns the CPU time of all sandboxes so far, the present ones and those before them. It fails before the
	// first one.
	CPU() (time.Duration, error)
}

// Prover is a Runtime that can be tested.
type Prover interface {
	// Prove runs a program of an image in a sandbox like a job's, with an isolation that Host lists.
	// It returns an error if the program did not end as expected.
	Prove(ctx context.Context, image string, isolation policy.Isolation) error
}

// Key identifies interchangeable slots.
type Key struct {
	Tenant    string
	Image     string // the reference in the job
	Isolation policy.Isolation
	Kind      string // job.Program.Kind of the program, or "session": selects warm interpreters
	Packages  string // policy.Requirements: additional packages
	// space-separated modules that the Python code certainly imports, with the policy's number of
	// cores; selects a preloaded interpreter
	Imports string
	CPU     float64
	// slots with different values share no sandbox, so that a broken one can be blamed on its job
	SandboxGroup string
}

// Slot is a place for exactly one attempt.
type Slot interface {
	// Run runs the attempt and reports how its program ended. An error accepted by Refused rejects
	// the job: the sandbox cannot meet the policy. Any other error is a failure of the worker,
	// without an outcome.
	//
	// When ctx ends, the program and all its processes are killed, and Run returns within a second.
	// The cause ErrCanceled yields OutcomeCanceled; any other cause is an error.
	Run(ctx context.Context, a Attempt) (*Report, error)

	// Start is Run for a Python program that exchanges messages with the caller. Run equals Start and
	// Wait without the stream. Start returns when the program runs or has failed to start. Its errors
	// are the same as Run's.
	Start(ctx context.Context, a Attempt) (Process, error)

	// Close destroys the slot, used or not. It is idempotent and leaves slow clean-up to the
	// background.
	Close()
}

// Process is the started program of an attempt, with a stream to it.
type Process interface {
	// Conn returns our end of the stream; the other end is the program's descriptor 5. After all of
	// the program's processes have ended, its last data can be read, and then EOF or an error. All
	// data is untrusted. Conn is nil if the program did not start; Wait then returns the reason.
	Conn() net.Conn

	// Stop kills the program, which counts as success unless it exceeded a limit first. A program
	// that has closed its end of the stream gets a second to end by itself. Stop does not wait, and
	// may be called at any time, repeatedly.
	Stop()

	// Wait waits for the program's end from any cause, closes Conn and returns the same as Run. It
	// must be called at least once.
	Wait() (*Report, error)
}

// Attempt is the input of a slot for one attempt.
type Attempt struct {
	Job      job.ID
	Lease    job.Lease
	Program  job.Program
	Script   *Script // how to run a Python program; nil: as a snippet
	Service  string  // replaces Program if not empty: a service of guest/python, which uses the stream
	Files    []File  // inputs, sorted by path
	Plan     *policy.Plan
	Secrets  map[string]string // additional environment; masked in the program's output
	Deadline time.Time         // of the lease, for labels; Run enforces the policy's own limits
	Collect  Collector         // nil: artifacts are not collected
	Link     *os.File          // the program's descriptor 6, if it has a stream; the caller closes it after Start
	CPUGroup uint64            // programs with the same number take turns and share cores; 0: separate
	Forks    bool              // the program may be copied while it runs: see Forker
	CPU      *CPUBudget        // shared by several attempts, in addition to the policy's cpu_time for each; nil: none
	Waits    *Waits            // shared by several attempts, whose wall clocks stop for each other's waits; nil: its own
	Gathered func(Gather)      // called before user code starts with a function that collects artifacts while it runs; optional
	Metered  func(Meter)       // called before user code starts; optional
	// called before user code starts, for each step, with a function that reads its masked output;
	// optional
	Written func(Tail)
	Begun   func() // called at the start of a command without steps, when its time starts to count; optional

	// Stdin and Stdout replace the streams of a command without steps, for example by pipes. Nil: its
	// own. They are closed after the program has them. The caller closes them again after Run, which
	// may fail earlier. Output to Stdout is neither captured, nor limited, nor masked.
	Stdin, Stdout *os.File
	// Output receives the complete masked standard output of a command without steps, or of a script,
	// regardless of how much is kept. It must accept everything without blocking. Nil: disabled.
	Output io.Writer
}

// Script is how to run Python code as "python3 path args": its values and variables are not
// reported, and an uncaught exception is an exit code.
type Script struct {
	Path  string // path of the file with the code
	Dir   string // working directory; empty: the image's, as for a command
	Args  []string
	Stdin []byte
}

// Forker is a Slot whose running program can be copied, with its memory and files, into a slot with
// its own walls, limits and stream. The Attempt must allow it and have a stream.
type Forker interface {
	// Fork creates a slot in which a copy waits for its attempt, which starts with the first message
	// on its stream. The attempt's program is ignored.
	//
	// The program takes part: ask sends it the descriptors for its part (see guest/python/fork.py).
	// Unless it fails, ask may take longer than Fork, because the program responds after its copy has
	// started. Problems in the copy itself are errors of its attempt. The error is a *job.FieldError
	// if the policy does not allow copies.
	Fork(ctx context.Context, ask func(files []*os.File) error) (Slot, error)
}

// File is one input. Its bytes are in memory or behind Open.
type File struct {
	Path string
	Data []byte
	Open func(context.Context) (io.ReadCloser, error) // used if Data is nil
	// Compiled marks a file as executable and read-only: it belongs to root, like directories created
	// for it. Other files belong to the program. They are executable if they are in memory and start
	// like scripts or binaries.
	Compiled bool
}

// Collector receives one artifact while the sandbox exists. The runtime has opened the file beneath
// the sandbox root without following links; r yields at most size bytes.
type Collector func(ctx context.Context, path string, size int64, r io.Reader) error

// Gather collects the policy's current artifacts with take, while the program runs and may change
// them. Files that vanish or grow meanwhile are refused, or kept as they were. Descriptions of
// refused files are as in Report.Feedback. Gather must return before the slot is closed.
type Gather func(ctx context.Context, take Collector) (refused []string, err error)

// Tail reads a program's kept output to a stream, 1 or 2: at most most bytes from an offset, and
// their actual start, which is later if bytes were dropped. It may be called at any time.
type Tail func(stream int, offset int64, most int) (at int64, data []byte)

// Report is how an attempt ended. The worker and the dispatcher fill in ID, names, attempts and
// timings of the control plane.
type Report struct {
	job.Result
	StartedAt time.Time // when user code started
	Unbegun   bool      // the program (for Python code: its interpreter) could not be executed; nothing of the job ran
}

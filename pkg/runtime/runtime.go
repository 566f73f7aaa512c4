// Package runtime runs one attempt of a job behind walls.
//
// Everything an attempt needs is prepared ahead of time in a Slot: a place for
// exactly one attempt, taken once, destroyed afterwards. Implementations are
// runtime/containerd (the real one) and runtime/fake (for control-plane tests);
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

// Runtime makes slots. All methods are safe for concurrent use.
type Runtime interface {
	// Host says what this machine can enforce. It does not change while the
	// process lives.
	Host() policy.Host

	// Acquire returns a slot for key, warm if there is one. The error wraps
	// job.ErrInvalid if the image does not exist (the user's mistake), is a
	// *BuildError if its packages cannot be had, and anything else is ours.
	Acquire(ctx context.Context, key Key) (Slot, error)

	// Close destroys every slot and everything else the runtime made on this
	// host.
	Close(ctx context.Context) error
}

// ImageLister is a Runtime that knows which image a name means to it.
type ImageLister interface {
	// ImageDigests returns the digest for each name by which jobs have asked for an
	// image, as it was some seconds ago. It never waits for anything.
	ImageDigests() map[string]string

	// Images returns the images that the runtime has, also those that no job has asked
	// for, at most policy.MaxHostImages of them, and how many it leaves out, as it was
	// some seconds ago: nothing until it has looked once. It never waits for anything.
	Images() (some []policy.HostImage, more int)
}

// Prover is a Runtime that can be tried out.
type Prover interface {
	// Prove runs a program of an image in a sandbox as jobs have them, at an isolation
	// that Host offers. It returns what kept the program from ending as it should.
	Prove(ctx context.Context, image string, isolation policy.Isolation) error
}

// Key says which slots are interchangeable.
type Key struct {
	Tenant    string
	Image     string // reference as the job names it
	Isolation policy.Isolation
	Kind      string // job.Program.Kind of what will run, or "session": selects warm interpreters
	Packages  string // policy.Requirements: what the image is to hold besides
	Imports   string // modules that the python code in it imports for certain, separated by spaces, and 0 or more CPUs of its policy: an interpreter that has them may do
	CPU       float64
	Alone     string // shares nothing with slots of another word here: what breaks there was broken by what ran there
}

// Slot is a place for exactly one attempt.
type Slot interface {
	// Run runs the attempt and returns how its program ended. An error that Refused
	// accepts refuses the job: the sandbox cannot be what the policy asks for. Any other
	// error is a failure of the worker; the outcome is then meaningless.
	// When ctx ends the program is killed, with everything it started, and Run
	// returns within a second; context.Cause(ctx) ErrCanceled yields
	// OutcomeCanceled, any other cause is an error.
	Run(ctx context.Context, a Attempt) (*Report, error)

	// Start is Run for a python program with which the caller exchanges messages
	// while it runs: Run is Start and Wait, without the stream. It returns when the
	// program runs or has failed to begin. The error is as Run's.
	Start(ctx context.Context, a Attempt) (Process, error)

	// Close destroys the slot, used or not. It is idempotent and does not wait
	// for cleaning that can go on in the background.
	Close()
}

// Process is the program of an attempt that was started, and a stream to it.
type Process interface {
	// Conn is our end of the stream, whose other end is the program's descriptor 5. Once
	// nothing of the program is left, what it wrote last can be read, and then EOF or an
	// error. Nothing that is read can be trusted. Conn is nil if the program did not
	// begin; Wait then says why.
	Conn() net.Conn

	// Stop kills the program, which has then succeeded unless a limit was first. One that
	// has closed its end of the stream is about to end by itself, and has a second for
	// that. Stop does not wait, and may be called at any time, and again.
	Stop()

	// Wait waits for the end of the program, whoever brings it about, closes Conn and
	// returns what Run does. It is called at least once.
	Wait() (*Report, error)
}

// Attempt is what a slot needs to run one attempt.
type Attempt struct {
	Job      job.ID
	Lease    job.Lease
	Program  job.Program
	Script   *Script // a python program is run as this; nil: as a snippet
	Service  string  // run instead of Program, if not empty: one of guest/python, which has the stream to itself
	Files    []File  // inputs, in the order of their paths
	Plan     *policy.Plan
	Secrets  map[string]string // more environment; masked in what the program writes
	Deadline time.Time         // of the lease, for labels; Run enforces the policy's own limits
	Collect  Collector         // nil: artifacts are not collected
	Link     *os.File          // the program's descriptor 6, if it has a stream; closed by who gave it, once Start has returned
	Together uint64            // programs of the same number take turns, and so share their cores; 0: it is by itself
	Forks    bool              // the program may be copied while it runs: see Forker
	CPU      *CPUBudget        // of all attempts that share it, besides the policy's cpu_time for each; nil: none
	Waits    *Waits            // of all attempts that share it: the policy's wall stands for each meanwhile; nil: its own
	Gathered func(Gather)      // is told before user code starts how to collect artifacts while it runs; nil: nobody asks
	Metered  func(Meter)       // is told before user code starts how to read what it spends; nil: nobody asks
	Written  func(Tail)        // is told before user code starts how to read what it writes, masked as that is; of a command with steps, for each; nil: nobody asks
	Begun    func()            // is called when a command without steps has begun, from when on its time counts; nil: nobody asks

	// Stdin and Stdout are those streams of a command without steps, such as ends of pipes, in place of its own; nil: its own.
	// They are closed once the program has them: whoever gave them closes them again when Run has returned, as it may
	// have failed before. What goes to Stdout is neither captured, nor limited, nor masked.
	Stdin, Stdout *os.File
	// Output is given all that a command without steps, or a script, writes to its own standard output, however much of it is kept,
	// masked as that is. It must take everything, and not wait; nil: nobody.
	Output io.Writer
}

// Script is how python code is run as "python3 path args": nothing is told of its values and variables, and an exception
// that it does not catch is an exit code.
type Script struct {
	Path  string // of the file that has the code as its text
	Dir   string // that it begins in; empty: that of the image, as for a command
	Args  []string
	Stdin []byte
}

// Forker is a Slot whose program can be copied while it runs, if the Attempt said
// so and has a stream: its memory and its files, into a slot with walls, limits and
// a stream of its own.
type Forker interface {
	// Fork makes a slot in which a copy waits for its attempt, which begins with
	// the first message of its stream: what program the Attempt names does not
	// matter. The program has to do its part: ask sends it the descriptors with
	// which it does (guest/python/fork.py knows them), and may take longer than
	// Fork, unless that fails: the program answers when its copy has begun. What
	// goes wrong in the copy itself is an error of its attempt. The error is a
	// *job.FieldError where the policy does not allow it.
	Fork(ctx context.Context, ask func(files []*os.File) error) (Slot, error)
}

// File is one input. The bytes are in memory or behind Open.
type File struct {
	Path string
	Data []byte
	Open func(context.Context) (io.ReadCloser, error) // used if Data is nil
	// Compiled says that it may be executed and not be changed: it is root's, as are directories that are made for it. Other
	// files are the program's own, and those that are scripts or binaries by their first bytes may be executed, if they
	// are in memory.
	Compiled bool
}

// Collector takes one artifact while the sandbox still exists. The runtime has
// opened the file beneath the sandbox root without following links; r yields at
// most size bytes.
type Collector func(ctx context.Context, path string, size int64, r io.Reader) error

// Gather has take collect the policy's artifacts as they are at the moment, while the
// program runs and may change them: what is gone or grows meanwhile is refused, or kept
// as it was. What is refused is described as in Report.Feedback. It must be over before the
// slot is closed.
type Gather func(ctx context.Context, take Collector) (refused []string, err error)

// Tail reads what a program has written to a stream, 1 or 2, as far as that is kept: at most most bytes from an
// offset on, and where they begin, which is later if what was there is not kept. It may be called at any time.
type Tail func(stream int, offset int64, most int) (at int64, data []byte)

// Report is how an attempt ended. ID, names, attempts and timings of the
// control plane are filled in by the worker and the dispatcher.
type Report struct {
	job.Result
	StartedAt time.Time // when user code started
	Unbegun   bool      // the program could not be executed (of python code: its interpreter), and nothing before it was: nothing of the job ran
}

package job

import "slices"

// Outcome is how a program ended, as data.
type Outcome string

// The outcomes. Some are never the program's doing: see OfProgram.
const (
	Succeeded       Outcome = "succeeded"        // exit code 0, or every test passed
	Failed          Outcome = "failed"           // non-zero exit, or a test did not pass
	Exception       Outcome = "exception"        // a python program ended with an uncaught exception
	TimedOut        Outcome = "timed_out"        // wall clock or CPU time ran out
	OutOfMemory     Outcome = "out_of_memory"    // the kernel killed it at its memory limit
	OutputLimit     Outcome = "output_limit"     // stdout or stderr passed a limit with on_exceed: kill
	DiskLimit       Outcome = "disk_limit"       // it failed with its writable space or inodes full
	ProcessLimit    Outcome = "process_limit"    // it failed after the kernel refused it a process
	Signaled        Outcome = "signaled"         // ended by a signal of its own making
	PolicyViolation Outcome = "policy_violation" // stopped for what its policy forbids
	OutcomeCanceled Outcome = "canceled"         // a client canceled it
	Expired         Outcome = "expired"          // it waited longer than expires_in
	Lost            Outcome = "lost"             // our failure: infrastructure attempts ran out
	CheckError      Outcome = "check_error"      // the tests themselves failed: no solution could have passed them
	SetupError      Outcome = "setup_error"      // what the job asks for could not be had: image, packages, inputs and room for them, secrets; it did not run
	CompileError    Outcome = "compile_error"    // the compiler refused the program, whose words are in the result: it did not run
)

// Outcomes lists every outcome, in the order in which they came to be: the schema has it.
var Outcomes = []Outcome{
	Succeeded, Failed, Exception, TimedOut, OutOfMemory, OutputLimit, DiskLimit,
	ProcessLimit, Signaled, PolicyViolation, OutcomeCanceled, Expired, Lost, CheckError, SetupError, CompileError,
}

// Failures lists the failure classes: every outcome but Succeeded.
func Failures() []Outcome {
	return slices.DeleteFunc(slices.Clone(Outcomes), func(o Outcome) bool { return o == Succeeded })
}

// Valid reports whether o is one of Outcomes.
func (o Outcome) Valid() bool { return slices.Contains(Outcomes, o) }

// OfProgram reports whether an outcome is what the program itself came to. All others,
// and those of releases to come, say nothing about it: whoever rewards or ranks programs
// leaves such jobs out.
func (o Outcome) OfProgram() bool {
	switch o {
	case OutcomeCanceled, Expired, Lost, CheckError, SetupError:
		return false
	}
	return o.Valid()
}

// State returns the terminal state that an outcome belongs to.
func (o Outcome) State() State {
	if o == OutcomeCanceled {
		return Canceled
	}
	return Finished
}

// Reason says why an attempt ended without a result of the program's own: the
// class that picks the retry budget.
type Reason string

// The reasons. All but ReasonNone are charged to infrastructure, never to the
// user's attempts.
const (
	ReasonNone      Reason = ""
	ReasonLost      Reason = "lost"      // the lease ran out: worker dead, cut off or paused
	ReasonDrained   Reason = "drained"   // the worker was told to stop
	ReasonPreempted Reason = "preempted" // its place on the worker went to other jobs
	ReasonInfra     Reason = "infra"     // containerd, image, object store: anything of ours
)

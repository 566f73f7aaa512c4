package job

import "slices"

// Outcome is how a program ended, as data.
type Outcome string

// The outcomes. OfProgram lists those not caused by the program.
const (
	Succeeded       Outcome = "succeeded"        // exit code 0, or every test passed
	Failed          Outcome = "failed"           // non-zero exit, or a test did not pass
	Exception       Outcome = "exception"        // a python program ended with an uncaught exception
	TimedOut        Outcome = "timed_out"        // wall clock or CPU time ran out
	OutOfMemory     Outcome = "out_of_memory"    // the kernel killed it at its memory limit
	OutputLimit     Outcome = "output_limit"     // stdout or stderr passed a limit with on_exceed: kill
	DiskLimit       Outcome = "disk_limit"       // it failed with its writable space or inodes full
	ProcessLimit    Outcome = "process_limit"    // the kernel refused it a process, and it failed
	Signaled        Outcome = "signaled"         // ended by a signal that it caused
	PolicyViolation Outcome = "policy_violation" // killed for an action that its policy forbids
	OutcomeCanceled Outcome = "canceled"         // a client canceled it
	Expired         Outcome = "expired"          // queued for longer than expires_in
	Lost            Outcome = "lost"             // our failure: no infrastructure attempts left
	CheckError      Outcome = "check_error"      // the tests failed: no solution could have passed them
	// a requirement was missing: image, packages, inputs, room for them, or secrets; the program did
	// not run
	SetupError Outcome = "setup_error"
	// the compiler rejected the program, with its output in the result; the program did not run
	CompileError Outcome = "compile_error"
)

// Outcomes lists every outcome in the order of introduction, as the schema does.
var Outcomes = []Outcome{
	Succeeded, Failed, Exception, TimedOut, OutOfMemory, OutputLimit, DiskLimit,
	ProcessLimit, Signaled, PolicyViolation, OutcomeCanceled, Expired, Lost, CheckError, SetupError, CompileError,
}

// Failures lists the failure classes: every outcome except Succeeded.
func Failures() []Outcome {
	return slices.DeleteFunc(slices.Clone(Outcomes), func(o Outcome) bool { return o == Succeeded })
}

// Valid reports whether o is one of Outcomes.
func (o Outcome) Valid() bool { return slices.Contains(Outcomes, o) }

// OfProgram reports whether the program itself caused the outcome. It is false for outcomes of
// later releases. Rewards and rankings should leave out jobs for which it is false.
func (o Outcome) OfProgram() bool {
	switch o {
	case OutcomeCanceled, Expired, Lost, CheckError, SetupError:
		return false
	}
	return o.Valid()
}

// State returns the terminal state of a job with this outcome.
func (o Outcome) State() State {
	if o == OutcomeCanceled {
		return Canceled
	}
	return Finished
}

// Reason is why an attempt ended without a result of the program. It selects the retry budget.
type Reason string

// The reasons. All except ReasonNone count against infrastructure attempts, never against the
// user's.
const (
	ReasonNone      Reason = ""
	ReasonLost      Reason = "lost"      // the lease expired: the worker is dead, disconnected or paused
	ReasonDrained   Reason = "drained"   // the worker was stopped
	ReasonPreempted Reason = "preempted" // other jobs took its place on the worker
	ReasonInfra     Reason = "infra"     // our failure: containerd, image, object store and so on
)

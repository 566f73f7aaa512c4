package sandbox

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// stopReason is why the worker killed a program; "" if it did not.
type stopReason string

// The reasons.
const (
	stopCanceled stopReason = "canceled" // a client's request
	stopOurs     stopReason = "ours"     // the context ended for another cause: no outcome
	stopWall     stopReason = "wall"
	stopCPU      stopReason = "cpu_time"
	stopStdout   stopReason = "stdout"
	stopStderr   stopReason = "stderr"
	stopDone     stopReason = "done"    // its caller has called Stop
	stopStarved  stopReason = "starved" // no progress for lack of a core: no outcome
	stopUnread   stopReason = "unread"  // the worker did not read its end or its message in time: no outcome
	stopMemory   stopReason = "memory"  // the kernel killed a part of it; we killed the rest
)

// ending is the information about how one program ended.
type ending struct {
	stop      stopReason
	Failure   *Failure        // it did not start
	Status    unix.WaitStatus // if it was not stopped
	exception bool            // Python reported an uncaught exception
	oomKills  int64
	refused   int64 // refused forks
	noSpace   bool  // its writable space is full
	noInodes  bool
}

// verdict is an ending in the terms of a result.
type verdict struct {
	outcome job.Outcome
	message string
	code    *int
	signal  string
}

// judge classifies an ending under the limits p. Our actions take precedence, then the kernel's,
// then the program's own: an exit code is never overinterpreted.
func judge(e ending, p *policy.Policy) verdict {
	if e.stop == stopCanceled {
		return verdict{outcome: job.OutcomeCanceled, message: runtime.ErrCanceled.Error()}
	}
	if e.oomKills > 0 || e.stop == stopMemory {
		return verdict{outcome: job.OutOfMemory, message: fmt.Sprintf("it needed more memory than its limit of %s", p.Memory)}
	}
	switch e.stop {
	case stopDone:
		if e.Status.Signaled() && e.Status.Signal() == unix.SIGKILL {
			return verdict{outcome: job.Succeeded}
		} // otherwise it had already ended
	case stopWall:
		return verdict{outcome: job.TimedOut, message: fmt.Sprintf("it ran longer than its limit of %s", p.Wall)}
	case stopCPU:
		return verdict{outcome: job.TimedOut, message: fmt.Sprintf("it used more CPU time than its limit of %s", p.CPUTime)}
	case stopStdout:
		return verdict{outcome: job.OutputLimit, message: fmt.Sprintf("it wrote more than %s to stdout", p.Stdout.Limit)}
	case stopStderr:
		return verdict{outcome: job.OutputLimit, message: fmt.Sprintf("it wrote more than %s to stderr", p.Stderr.Limit)}
	}
	if e.Failure != nil {
		return startFailed(e.Failure)
	}
	return ownEnd(e, p)
}

// ownEnd classifies a program that was not stopped.
func ownEnd(e ending, p *policy.Policy) verdict {
	var v verdict
	switch {
	case e.Status.Signaled():
		v.outcome, v.signal = job.Signaled, unix.SignalName(e.Status.Signal())
		v.message = "it was ended by " + v.signal
	case e.Status.ExitStatus() == 0 && !e.exception:
		return verdict{outcome: job.Succeeded, code: codeOf(e.Status)}
	case e.exception:
		v.outcome, v.code = job.Exception, codeOf(e.Status)
		v.message = "it ended with an uncaught exception"
	default:
		v.outcome, v.code = job.Failed, codeOf(e.Status)
		v.message = fmt.Sprintf("it ended with exit code %d", *v.code)
	}
	// It failed by itself. A limit that it reached is the better explanation.
	switch {
	case e.refused > 0:
		v.outcome = job.ProcessLimit
		v.message = fmt.Sprintf("%s after it asked for more than its limit of %d processes", v.message, p.Processes)
	case e.noSpace:
		v.outcome = job.DiskLimit
		v.message = fmt.Sprintf("%s with its limit of %s of disk used up", v.message, p.Disk)
	case e.noInodes:
		v.outcome = job.DiskLimit
		v.message = fmt.Sprintf("%s with its limit of %d files used up", v.message, p.Files)
	}
	return v
}

func codeOf(s unix.WaitStatus) *int {
	code := s.ExitStatus()
	return &code
}

// NoProgram is the message for a program that the image lacks.
const NoProgram = "no such program"

// startFailed returns a shell's exit code for a program that could not be executed.
func startFailed(f *Failure) verdict {
	code := 126
	v := verdict{outcome: job.Failed, code: &code, message: "cannot " + f.Error()}
	switch {
	case f.Stage == guest.StageExec && (f.Errno == unix.ENOENT || f.Errno == unix.ENOTDIR):
		code = 127
		v.message = NoProgram
	case f.Stage == guest.StageExec && f.Errno == unix.EACCES:
		v.message = "the program is not executable"
	case f.Stage == guest.StageExec && f.Errno == unix.E2BIG:
		v.message = "argv and environment are too long"
	case f.Stage == guest.StageDir:
		v.message = "cannot enter the working directory: " + f.Errno.Error()
	}
	return v
}

// sinceMS returns the milliseconds since t, for reports.
func sinceMS(t time.Time) float64 { return job.Milliseconds(time.Since(t)) }

package sandbox

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func exited(code int) unix.WaitStatus        { return unix.WaitStatus(code << 8) }
func signaled(s unix.Signal) unix.WaitStatus { return unix.WaitStatus(s) }
func execFailed(errno unix.Errno) *Failure   { return &Failure{guest.StageExec, errno} }

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		ending  ending
		outcome job.Outcome
		code    int    // -1: none
		says    string // part of the message
	}{
		{"success", ending{}, job.Succeeded, 0, ""},
		{"exit code", ending{Status: exited(3)}, job.Failed, 3, "exit code 3"},
		{"an exit code is never taken for a kill", ending{Status: exited(137)}, job.Failed, 137, "137"},
		{"signal", ending{Status: signaled(unix.SIGSEGV)}, job.Signaled, -1, "SIGSEGV"},
		{"a kill of its own making", ending{Status: signaled(unix.SIGKILL)}, job.Signaled, -1, "SIGKILL"},
		{"exception", ending{Status: exited(1), exception: true}, job.Exception, 1, "exception"},
		{"exception with a clean exit", ending{exception: true}, job.Exception, 0, "exception"},

		{"killed by the kernel for memory", ending{Status: signaled(unix.SIGKILL), oomKills: 1}, job.OutOfMemory, -1, "256Mi"},
		{"a part of it was, and it went on", ending{oomKills: 1}, job.OutOfMemory, -1, "256Mi"},
		{"noticed by the meter", ending{stop: stopMemory, oomKills: 1}, job.OutOfMemory, -1, "256Mi"},
		{"out of memory before out of time", ending{stop: stopWall, oomKills: 2}, job.OutOfMemory, -1, "256Mi"},

		{"wall", ending{stop: stopWall}, job.TimedOut, -1, "30s"},
		{"cpu", ending{stop: stopCPU}, job.TimedOut, -1, "CPU"},
		{"stdout", ending{stop: stopStdout}, job.OutputLimit, -1, "stdout"},
		{"stderr", ending{stop: stopStderr}, job.OutputLimit, -1, "stderr"},
		{"canceled", ending{stop: stopCanceled}, job.OutcomeCanceled, -1, "canceled"},
		{"canceled whatever else", ending{stop: stopCanceled, oomKills: 1, noSpace: true}, job.OutcomeCanceled, -1, "canceled"},
		{"stopped with a full disk", ending{stop: stopWall, noSpace: true, refused: 9}, job.TimedOut, -1, "30s"},

		{"refused a process", ending{Status: exited(1), refused: 1}, job.ProcessLimit, 1, "64 processes"},
		{"refused a process, with an exception", ending{Status: exited(1), refused: 1, exception: true}, job.ProcessLimit, 1, "64"},
		{"refused a process and coped", ending{refused: 5}, job.Succeeded, 0, ""},
		{"full disk", ending{Status: exited(1), noSpace: true}, job.DiskLimit, 1, "64Mi of disk"},
		{"full disk and coped", ending{noSpace: true}, job.Succeeded, 0, ""},
		{"no inodes", ending{Status: exited(1), noInodes: true}, job.DiskLimit, 1, "4096 files"},
		{"crashed on a full disk", ending{Status: signaled(unix.SIGBUS), noSpace: true}, job.DiskLimit, -1, "SIGBUS"},

		{"no such program", ending{Failure: execFailed(unix.ENOENT)}, job.Failed, 127, "no such program"},
		{"not executable", ending{Failure: execFailed(unix.EACCES)}, job.Failed, 126, "not executable"},
		{"not a program", ending{Failure: execFailed(unix.ENOEXEC)}, job.Failed, 126, "exec format error"},
		{"argv too long", ending{Failure: execFailed(unix.E2BIG)}, job.Failed, 126, "too long"},
		{"no such directory", ending{Failure: &Failure{guest.StageDir, unix.ENOENT}}, job.Failed, 126, "working directory"},
		{"stopped before it began", ending{stop: stopWall, Failure: execFailed(unix.ENOENT)}, job.TimedOut, -1, "30s"},
	} {
		p := policy.Default()
		v := judge(tc.ending, &p)
		code := -1
		if v.code != nil {
			code = *v.code
		}
		if v.outcome != tc.outcome || code != tc.code || !strings.Contains(v.message, tc.says) || (v.message == "") != (tc.says == "") {
			t.Errorf("%s: %s, exit code %d, %q; want %s, %d, %q", tc.name, v.outcome, code, v.message, tc.outcome, tc.code, tc.says)
		}
	}
}

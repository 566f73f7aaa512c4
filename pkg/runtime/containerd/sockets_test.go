package containerd

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSumRmem(t *testing.T) {
	t.Parallel()
	const table = `sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
00000000b2d3a0f8 0   0          00000000 0        0        0     2        0        9
00000000ed2e3ad3 0   4242       00000000 2304     0        0     2        0        77
0000000001e0d3a3 0   4243       00000000 4096     0        0     2        12       78
`
	if n, err := sumRmem([]byte(table)); err != nil || n != 6400 {
		t.Errorf("sumRmem = %d, %v; want 6400", n, err)
	}
	if n, err := sumRmem([]byte("sk\n1 2 3\n")); err == nil {
		t.Errorf("sumRmem of a short row = %d; want an error", n)
	}
}

// What a socket has not read is counted as long as it is there.
func TestAnswersMemory(t *testing.T) {
	// Of this thread: others of this process have been in other networks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := answersMemory(unix.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	request[0], request[4], request[6] = byte(len(request)), unix.RTM_GETLINK, unix.NLM_F_REQUEST
	request[unix.SizeofNlMsghdr+4] = 1 // lo
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	if n, err := answersMemory(unix.Gettid()); err != nil || n <= before {
		t.Errorf("answersMemory = %d, %v; it was %d before the kernel answered", n, err, before)
	}
}

// A program's answers are measured while it works, once more after it has worked
// for a moment, and never again while it does nothing.
func TestAnswersAreMeasuredWhileTheyCanGrow(t *testing.T) {
	began := time.Now()
	l := answersLook{at: began}
	for _, step := range []struct {
		cpu, after time.Duration
		want       bool
	}{
		{0, time.Hour, false}, // it sleeps
		{answersCPU / 4, answersEvery / 2, false},
		{answersCPU, answersEvery / 2, true}, // it works hard
		{answersCPU + 1, answersEvery, false},
		{answersCPU + 1, answersEvery * 2, true}, // the little that it did has its turn
		{answersCPU + 1, time.Hour, false},
		{2 * answersCPU, time.Hour, true},
	} {
		if got := l.due(step.cpu, began.Add(step.after)); got != step.want {
			t.Errorf("with %v of CPU time, %v after its begin: due %v, want %v", step.cpu, step.after, got, step.want)
		}
	}
}

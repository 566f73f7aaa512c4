package sandbox

import (
	"net"
	"os"
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

func TestSumUnaccepted(t *testing.T) {
	t.Parallel()
	// One listens, one is accepted, two wait, and one is the past of a connection.
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:A5CF 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 1234 1 0000000000000000 100 0 0 10 0
   1: 0100007F:A5CF 0100007F:CB12 01 00000000:00000400 00:00000000 00000000     0        0 1236 1 0000000000000000 20 4 31 10 -1
   2: 0100007F:A5CF 0100007F:CB10 01 00000000:00100000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 31 10 -1
   3: 0100007F:A5CF 0100007F:CB11 08 00000000:0000000a 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 31 10 -1
   4: 0100007F:A5CF 0100007F:CB13 06 00000000:00000000 03:00000FA0 00000000     0        0 0 3 0000000000000000
`
	if n, err := sumUnaccepted([]byte(table)); err != nil || n != 1<<20+10 {
		t.Errorf("sumUnaccepted = %d, %v; want %d", n, err, 1<<20+10)
	}
	if n, err := sumUnaccepted([]byte("sl\n1 2 3\n")); err == nil {
		t.Errorf("sumUnaccepted of a short row = %d; want an error", n)
	}
}

func TestTCPCounts(t *testing.T) {
	t.Parallel()
	inuse, pages := tcpCounts([]byte("sockets: used 401\nTCP: inuse 401 orphan 0 tw 0 alloc 402 mem 13064\nUDP: inuse 7 mem 21\n"))
	if inuse != 401 || pages != 13064 {
		t.Errorf("tcpCounts = %d, %d; want 401, 13064", inuse, pages)
	}
	if inuse, pages = tcpCounts([]byte("TCP6: inuse 3\nUDP6: inuse 7\n")); inuse != 3 || pages != 0 {
		t.Errorf("tcpCounts of sockstat6 = %d, %d; want 3, 0", inuse, pages)
	}
}

// TestUnacceptedMemory checks that data sent into a connection counts until it is accepted, for both versions
// of IP.
func TestUnacceptedMemory(t *testing.T) {
	addresses := []string{"127.0.0.1:0"}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil { // not where the kernel has no IPv6
		addresses = append(addresses, "[::1]:0")
	}
	for _, address := range addresses {
		t.Run(address, func(t *testing.T) {
			// Of this thread: others of this process have been in other networks.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			const sent = 100_000
			if _, err := c.Write(make([]byte, sent)); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); ; time.Sleep(time.Millisecond) {
				n, err := unacceptedMemory(unix.Gettid())
				if err != nil {
					t.Fatal(err)
				}
				if n >= sent {
					break
				}
				if time.Since(began) > 10*time.Second {
					t.Fatalf("unacceptedMemory = %d; %d bytes wait", n, sent)
				}
			}
			// The kernel may report that the host's sockets hold nothing: each core has some in reserve.
			if few, err := fewConnections(unix.Gettid(), -1); err != nil || few {
				t.Errorf("fewConnections = %v, %v; there are three sockets, and bytes in one", few, err)
			}
			if few, err := fewConnections(unix.Gettid(), 1<<50); err != nil || !few {
				t.Errorf("fewConnections = %v, %v; the host has no such memory", few, err)
			}
		})
	}
}

// TestAnswersMemory checks that unread data of a socket counts as long as it is there.
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
	if over, err := netlinkExceeds(unix.Gettid(), before); err != nil || !over {
		t.Errorf("netlinkExceeds = %v, %v with one byte more than there may be", over, err)
	}
	if over, err := netlinkExceeds(unix.Gettid(), 1<<40); err != nil || over {
		t.Errorf("netlinkExceeds = %v, %v with one socket and room", over, err)
	}
}

// TestNetlinkSocketsAreBounded holds that too many netlink sockets exceed the limit before any of them is in the host's table.
func TestNetlinkSocketsAreBounded(t *testing.T) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil { // the thread ends with this test
		runtime.UnlockOSThread()
		t.Fatal(err)
	}
	for n := range mostNetlink + 1 {
		if over, err := netlinkExceeds(unix.Gettid(), 1<<40); n%256 == 0 && (err != nil || over) {
			t.Fatalf("netlinkExceeds = %v, %v with %d sockets", over, err, n)
		}
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	if over, err := netlinkExceeds(unix.Gettid(), 1<<40); err != nil || !over {
		t.Errorf("netlinkExceeds = %v, %v with %d sockets", over, err, mostNetlink+1)
	}
}

func TestNetlinkSockets(t *testing.T) {
	t.Parallel()
	const table = `protocol  size sockets  memory press maxhdr  slab module     cl co di ac io in de sh ss gs se re bi br ha uh gp em
TCP       2304     39     100   no     192   yes  kernel      y  y  y  y  y  y  y  y  y  y  y  y  n  y  y  y  y  y
NETLINK   1096    300      -1   NI       0   no   kernel      n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n
`
	if n := netlinkSockets([]byte(table)); n != 300 {
		t.Errorf("netlinkSockets = %d, want 300", n)
	}
	if n := netlinkSockets(nil); n != 0 {
		t.Errorf("netlinkSockets of a program that has ended = %d", n)
	}
}

// TestSocketsAreMeasuredRarelyWithoutRation holds that dear looks are postponed, and not for ever.
func TestSocketsAreMeasuredRarelyWithoutRation(t *testing.T) {
	t.Parallel()
	began := time.Now()
	l := socketsLook{at: began}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{socketsEvery, false}, {socketsLate - 1, false}, {socketsLate, true}, {socketsLate + socketsEvery, false}, {2 * socketsLate, true}} {
		if got := l.due(step.after, began.Add(step.after), false); got != step.want {
			t.Errorf("after %v: due %v, want %v", step.after, got, step.want)
		}
	}
}

// A program's sockets are measured while it works, once more after it has worked
// for a moment, and never again while it does nothing.
func TestSocketsAreMeasuredWhileTheyCanGrow(t *testing.T) {
	began := time.Now()
	l := socketsLook{at: began}
	for _, step := range []struct {
		cpu, after time.Duration
		want       bool
	}{
		{0, time.Hour, false}, // it sleeps
		{socketsCPU / 4, socketsEvery / 2, false},
		{socketsCPU, socketsEvery / 2, true}, // it works hard
		{socketsCPU + 1, socketsEvery, false},
		{socketsCPU + 1, socketsEvery * 2, true}, // the little that it did has its turn
		{socketsCPU + 1, time.Hour, false},
		{2 * socketsCPU, time.Hour, true},
	} {
		if got := l.due(step.cpu, began.Add(step.after), true); got != step.want {
			t.Errorf("with %v of CPU time, %v after its begin: due %v, want %v", step.cpu, step.after, got, step.want)
		}
	}
}

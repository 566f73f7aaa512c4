package cell

import (
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
)

// networkName prints an identity that no two network namespaces share, unlike their file numbers, which are
// reused: SO_NETNS_COOKIE.
const networkName = `
import socket
with socket.socket(socket.AF_UNIX) as s: print(s.getsockopt(socket.SOL_SOCKET, 71, 8).hex(), flush=True)
`

// networkLook prints the network namespace and what there is to be found in it.
const networkLook = networkName + `
counters = dict()
for name in "snmp", "netstat":
    lines = open("/proc/net/" + name).read().splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        counters.update({names.split()[0] + n: int(v) for n, v in zip(names.split()[1:], values.split()[1:])})
for line in open("/proc/net/snmp6"):
    name, value = line.split()
    counters[name] = int(value)
# Settings and what the kernel made of bringing lo up.
traces = {n: v for n, v in counters.items() if v and n not in ("Ip:Forwarding", "Ip:DefaultTTL", "Tcp:RtoAlgorithm", "Tcp:RtoMin", "Tcp:RtoMax", "Tcp:MaxConn")}
traces.update({f: open("/proc/net/" + f).read().count("\n") for f in ("tcp", "udp", "tcp6", "unix", "ip6_flowlabel") if open("/proc/net/" + f).read().count("\n") > 1})
print(traces)`

// networkUses are programs that use their network, by the trace that they leave.
var networkUses = map[string]string{
	"nothing": "",
	"a connection left in TIME_WAIT": `
import socket
l = socket.create_server(("127.0.0.1", 7777))
c = socket.create_connection(("127.0.0.1", 7777))
s, _ = l.accept()
s.close(); c.close()`,
	"one of IPv6":              `import socket; l = socket.create_server(("::1", 7), family=socket.AF_INET6); socket.create_connection(("::1", 7))`,
	"a datagram to nobody":     `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))`,
	"a datagram without a way": "import socket\ntry: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.0.0.1', 9))\nexcept OSError: pass",
	"a connection without one": "import socket\ntry: socket.create_connection(('10.0.0.1', 9))\nexcept OSError: pass",
	"one that is refused":      "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError: pass",
	"a listener, and a name":   `import socket; socket.create_server(("127.0.0.1", 7777)); socket.socket(socket.AF_UNIX).bind("\0name")`,
	"a label of flows": `
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for label in 1, 2, 3:
    try: s.setsockopt(41, 32, struct.pack("16s4sBBHHHI", socket.inet_pton(socket.AF_INET6, "fd00::cafe"), struct.pack(">I", label), 0, 255, 1, 0, 150, 0))
    except OSError: pass`,
	"a group of multicast": `
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for group in "ff02::cafe", "ff15::1":
    try: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("I", 1))
    except OSError: pass
t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: t.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1"))
except OSError: pass`,
	"a listener with fast open": `import socket; l = socket.create_server(("127.0.0.1", 7777)); l.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)`,
	"a listener that forks off": `import os, socket, time; l = socket.create_server(("127.0.0.1", 7777)); os.fork() or time.sleep(60)`,
}

// networksAre checks that no job finds an earlier job's traces on its network, and that unused namespaces are
// used again.
func networksAre(t *testing.T, run func(code string) (stdout, stderr string)) {
	t.Helper()
	seen := map[string]int{}
	for name, code := range networkUses {
		stdout, _ := run(networkName + code)
		used := strings.TrimSpace(stdout)
		// More than are made ahead, so that the one in question is among them.
		for range 8 {
			stdout, stderr := run(networkLook)
			ns, traces, _ := strings.Cut(strings.TrimSpace(stdout), "\n")
			seen[ns]++
			if traces != "{}" {
				t.Errorf("after %s a job finds %s %s%s", name, traces, stderr, ns)
			}
			if ns == used && leavesTraces[name] {
				t.Errorf("after %s a job gets the same namespace", name)
			}
		}
	}
	if len(seen) > 50 {
		t.Errorf("%d namespaces for %d jobs: none is used again", len(seen), 8*len(networkUses))
	}
}

// leavesTraces are the networkUses that leave traces on any kernel, with IPv6 or without.
var leavesTraces = map[string]bool{
	"a connection left in TIME_WAIT": true, "a datagram to nobody": true, "a datagram without a way": true, "a connection without one": true, "one that is refused": true,
}

func TestCellNetworksAreUsedAgainOnlyIfUntouched(t *testing.T) {
	r := newRuntime(t, nil)
	networksAre(t, func(code string) (stdout, stderr string) {
		rep := cellJob(t, r, pySnippet(code), nil)
		return rep.Stdout.Text, rep.Stderr.Text
	})
}

// Programs that are forked from a preload have networks by the same rule.
func TestPreloadedNetworksAreUsedAgainOnlyIfUntouched(t *testing.T) {
	i := importing{r: newRuntime(t, preloading), imports: "asyncio"}
	i.warm(t)
	networksAre(t, func(code string) (stdout, stderr string) {
		rep, preloaded := i.run(t, code)
		if !preloaded {
			t.Error("it ran by itself")
		}
		return rep.Stdout.Text, rep.Stderr.Text
	})
}

// A socket of any kind that outlives its program, as one does that was on its way through
// another when both ended, until the kernel finds it, keeps a namespace from the next.
func TestCellNetworksWithSocketsAreNotUsedAgain(t *testing.T) {
	testenv.Needs(t, "root")
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread() // and never unlocked: it ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		n, err := openNetwork(unix.Gettid(), false)
		if err != nil {
			t.Error(err)
			return
		}
		defer n.close()
		for name, kind := range map[string][2]int{
			"none": {}, "of TCP": {unix.AF_INET, unix.SOCK_STREAM}, "of UDP": {unix.AF_INET, unix.SOCK_DGRAM},
			"with a name": {unix.AF_UNIX, unix.SOCK_DGRAM}, "of netlink": {unix.AF_NETLINK, unix.SOCK_RAW},
		} {
			fd := -1
			if name != "none" {
				if fd, err = unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0); err != nil {
					t.Error(err)
					return
				}
			}
			if n.untouched() != (fd < 0) {
				t.Errorf("a socket, %s: nothing has happened: %v", name, n.untouched())
			}
			_ = unix.Close(fd)
			for deadline := time.Now().Add(10 * time.Second); !n.untouched(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Errorf("a socket, %s, is there for ever", name)
					return
				}
			}
		}
	}()
	<-done
}

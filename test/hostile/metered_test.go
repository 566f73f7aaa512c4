package hostile

import (
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// dearWork are programs that cause the worker as much work as possible for little CPU time of their
// own: by the state that it inspects, and by the data that they send.
var dearWork = map[string]string{
	"threads": `
import threading
threading.stack_size(65536)
for _ in range(2500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
trickle(3)`,
	"threads of many processes": `
import threading
threading.stack_size(65536)
for _ in range(20):
    if os.fork() == 0:
        for _ in range(120): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        trickle(3)
        os._exit(0)
trickle(3)`,
	"processes": `
for _ in range(400):
    if os.fork() == 0:
        time.sleep(60)
trickle(3)`,
	"threads that come and go": `
import threading
threading.stack_size(65536)
for _ in range(1500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
end = time.monotonic() + 3
while time.monotonic() < end:
    threading.Thread(target=time.sleep, args=(0.1,), daemon=True).start()
    time.sleep(0.02)`,
	"netlink sockets": `
keep = netlink(900)
trickle(3)`,
	"too many netlink sockets": `
for _ in range(25):
    if os.fork() == 0:
        keep = netlink(4000)
        trickle(3)
        os._exit(0)
trickle(3)`,
	"netlink sockets of many processes": `
for _ in range(40):
    if os.fork() == 0:
        keep = netlink(200)
        trickle(3)
        os._exit(0)
trickle(3)`,
	"connections": `
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
keep = []
try:
    for _ in range(1000):
        c = socket.create_connection(server.getsockname())
        keep += [c, server.accept()[0]]
        c.sendall(bytes(60000))
except OSError: pass
trickle(3)`,
	"result of many bytes": `
chunk = bytes(65536)
try:
    for _ in range(20000): os.write(4, chunk)
except OSError: pass`,
	"result of single bytes": `
try:
    for _ in range(300000): os.write(4, b"x")
except OSError: pass`,
	"result of many values": `os.write(4, b"[" + b"[]," * 60000 + b"[]]")
os._exit(0)`,
	"output of single bytes": `for _ in range(300000): os.write(1, b"x")`,
	"output of single bytes, slowly": `
for _ in range(20000):
    os.write(2, b"x")
    time.sleep(0.00005)`,
	"output of many bytes": `
chunk = bytes(65536)
for _ in range(20000): os.write(1, chunk)`,
	"empty artifacts": `
for i in range(8000): open("/workspace/%05d" % i, "w").close()`,
	"directories": `
for i in range(90):
    at = "/workspace/%05d" % i
    os.mkdir(at)
    for _ in range(60):
        at += "/d"
        os.mkdir(at)`,
	"refused requests": `
import socket
end = time.monotonic() + 1
while time.monotonic() < end:
    with socket.create_connection(("127.0.0.1", 3128)) as s:
        s.sendall(b"CONNECT refused.example.net:443 HTTP/1.1\r\n\r\n")
        s.recv(100)`,
	"requests that are cut": `
import socket
end = time.monotonic() + 1
while time.monotonic() < end:
    socket.create_connection(("127.0.0.1", 3128)).close()`,
	"requests of single bytes": `
import socket
end = time.monotonic() + 1
while time.monotonic() < end:
    try:
        with socket.create_connection(("127.0.0.1", 3128)) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for c in b"GET http://refused.example.net/" + bytes(20000): s.sendall(bytes([c or 97]))
    except OSError: pass`,
	"names to resolve": `
import socket
end, i = time.monotonic() + 1, 0
while time.monotonic() < end:
    with socket.create_connection(("127.0.0.1", 3128)) as s:
        s.sendall(b"CONNECT n%d.example.org:443 HTTP/1.1\r\n\r\n" % i)
        s.settimeout(0.2)
        try: s.recv(100)
        except TimeoutError: pass
        i += 1`,
	"SOCKS requests": `
import socket
end = time.monotonic() + 1
while time.monotonic() < end:
    with socket.create_connection(("127.0.0.1", 3128)) as s:
        s.sendall(b"\5\1\0\5\1\0\1\x7f\0\0\1\0\x50")
        s.recv(100)`,
}

// helpers begin each program of dearWork.
const helpers = `
import os, socket, time
def trickle(seconds):  # 2 % of a core
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        until = time.thread_time() + 0.001
        while time.thread_time() < until: pass
        time.sleep(0.05)
def netlink(n):
    keep = []
    try:
        for _ in range(n):
            s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            s.bind((0, 0))
            keep.append(s)
    except OSError: pass
    return keep
`

// TestWorkIsCharged checks that a job pays for the worker's work: the worker uses at most 1.2 times
// the CPU time that the job is charged, beyond its use for a job that sleeps.
func TestWorkIsCharged(t *testing.T) {
	rt, stateDir := newRuntime(t)
	for _, isolation := range []policy.Isolation{policy.Cell, policy.Task, policy.GVisor} {
		t.Run(string(isolation), func(t *testing.T) {
			a := &arena{rt: rt, isolation: isolation, host: newHost(t, rt, stateDir)}
			plan := a.plan(t, &Attack{Policy: map[string]any{"wall": "60s", "cpu_time": "60s", "memory": "1Gi", "processes": 3000, "open_files": 4096, "files": 20000,
				"network": map[string]any{"mode": "allow", "allow": []string{"*.example.org:443"}}, "artifacts": map[string]any{"paths": []string{"/workspace/**"}, "max_files": 10000}}})
			cost := func(code string) (worker, charged time.Duration) {
				t.Helper()
				before := cpuTime(t)
				report, _ := a.do(t, job.Program{Python: &job.Python{Code: helpers + code}}, plan, nil)
				if report.Outcome != job.Succeeded && report.Outcome != job.OutOfMemory {
					t.Errorf("%s %s\n%.2000s", report.Outcome, report.Message, report.Stderr.Text)
				}
				return cpuTime(t) - before, time.Duration(report.Usage.CPUMS * float64(time.Millisecond))
			}
			cost("pass") // warm
			idle, _ := cost("time.sleep(3)")
			for _, name := range part(t, isolation, slices.Sorted(maps.Keys(dearWork))) {
				t.Run(name, func(t *testing.T) {
					worker, charged := cost(dearWork[name])
					t.Logf("the worker used %v, and the job was charged %v", worker, charged)
					if worker-idle > charged*6/5+200*time.Millisecond {
						t.Errorf("the worker used %v, %v of them for any job; the job was charged %v", worker, idle, charged)
					}
				})
			}
		})
	}
}

// TestSocketsOfOthersCostNothing checks that sockets of another tenant's job do not make the
// inspection of a job more expensive.
func TestSocketsOfOthersCostNothing(t *testing.T) {
	rt, stateDir := newRuntime(t)
	a := &arena{rt: rt, isolation: policy.Cell, host: newHost(t, rt, stateDir)}
	small := a.plan(t, &Attack{Policy: map[string]any{"wall": "60s"}})
	const busy = "t = time.process_time()\nwhile time.process_time() < t + 2: pass"
	look := func() time.Duration {
		t.Helper()
		before := cpuTime(t)
		if report, _, err := a.try(t.Context(), innocent, job.Program{Python: &job.Python{Code: helpers + busy}}, small, nil); err != nil || report.Outcome != job.Succeeded {
			t.Fatalf("the job of the other tenant: %v, %+v", err, report)
		}
		return cpuTime(t) - before
	}
	look()
	alone := look()
	large := a.plan(t, &Attack{Policy: map[string]any{"wall": "60s", "memory": "1Gi", "processes": 100, "open_files": 4096}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		const code = "for _ in range(24):\n    if os.fork() == 0:\n        keep = netlink(4000)\n        time.sleep(8)\n        os._exit(0)\ntime.sleep(8)"
		if _, _, err := a.try(t.Context(), attacker, job.Program{Python: &job.Python{Code: helpers + code}}, large, nil); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(2 * time.Second)
	beside := look()
	<-done
	t.Logf("the worker used %v for the job alone, %v beside the sockets", alone, beside)
	if beside > 2*alone+200*time.Millisecond {
		t.Errorf("the worker used %v for the job alone, %v beside the sockets of another", alone, beside)
	}
}

// cpuTime returns the CPU time of this process, which is the worker of these tests.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

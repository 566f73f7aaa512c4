package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// TestSessionWalls attacks what stands between a session, its copies, and what
// makes them. Each attack went through on 5ee7338, if it does not say otherwise.
func TestSessionWalls(t *testing.T) {
	f := start(t)
	for name, story := range map[string]func(*testing.T, *fleet){
		"who makes a copy": whoMakesACopy,
	} {
		t.Run(name, func(t *testing.T) { story(t, f) })
	}
}

// whoMakesACopy watches every process that appears beside a session while boxes
// are made for its copies, and takes whatever of theirs it may: their root, which
// is that of the cell until they have left it, with the worker's socket, and their
// descriptors.
func whoMakesACopy(t *testing.T, f *fleet) {
	const watch = `
import ctypes, os, signal, socket, sys, time
c = ctypes.CDLL(None, use_errno=True)
def watch(stop):
    got, me = set(), os.getpid()
    def say(what):
        if what not in got:
            got.add(what)
            with open("/tmp/got.new", "w") as f: f.write("\n".join(sorted(got)))
            os.rename("/tmp/got.new", "/tmp/got")
    def take(pid):
        for name in "root/run/assay/slot", "fd/100":
            try:
                fd = os.open("/proc/%d/%s" % (pid, name), os.O_PATH if name[0] in "rcf" else os.O_RDONLY)
            except OSError:
                continue
            say(name)
            if name == "root/run/assay/slot":
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                try:
                    s.connect("/proc/self/fd/%d/socket" % fd)
                    s.send(b"Zs")
                    say("the worker's socket")
                except OSError as e:
                    pass
            os.close(fd)
    last = open("/proc/sys/kernel/ns_last_pid")
    end = time.monotonic() + 40
    while time.monotonic() < end and not os.path.exists("/tmp/end"):
        last.seek(0)
        n = int(last.read())
        for pid in n + 1, n, n - 1, n + 2:
            if pid > 2 and pid != me:
                if stop:
                    try: os.kill(pid, signal.SIGSTOP)
                    except OSError: continue
                take(pid)
                if stop:
                    try: os.kill(pid, signal.SIGCONT)
                    except OSError: pass
for stop in STOP:
    if os.fork() == 0:
        try: watch(stop)
        finally: os._exit(0)
`
	for name, stop := range map[string]string{"looks": "(False,)", "stops them": "(True,)"} {
		t.Run(name, func(t *testing.T) {
			id := f.session(t, job.SessionSpec{})
			f.execute(t, id, job.Succeeded, code(strings.ReplaceAll(watch, "STOP", stop)))
			for range 12 {
				s, err := f.api.ForkSession(t.Context(), id)
				if err != nil {
					t.Logf("fork: %v", err) // it may have been stopped, or killed
					continue
				}
				time.Sleep(10 * time.Millisecond) // the next box is made meanwhile
				if _, err := f.api.CloseSession(t.Context(), s.ID); err != nil {
					t.Fatal(err)
				}
			}
			e := f.execute(t, id, job.Succeeded, api.ExecuteRequest{Code: `
import os
open("/tmp/end", "w").close()
print(open("/tmp/got").read().split("\n") if os.path.exists("/tmp/got") else [])`})
			if e.Stdout.Text != "[]\n" {
				t.Errorf("it got at %s", e.Stdout.Text)
			}
			f.execute(t, id, job.Succeeded, code("1"))
		})
	}
}

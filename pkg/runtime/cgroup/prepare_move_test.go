package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestOwnProcesses checks that only the group of this process is found: a process that is asked to enter its
// own group stays there.
func TestOwnProcesses(t *testing.T) {
	t.Parallel()
	me := fmt.Sprintf("1\n%d\n", os.Getpid())
	for _, c := range []struct {
		name, where string
		files       map[string]string
		v2          bool
		want        string // "" for none
	}{
		{"v1", "9:name=systemd:/s\n8:cpu,pids:/a/b\n0::/c\n", map[string]string{"pids/a/b/cgroup.procs": me, "pids/c/cgroup.procs": me}, false, "pids/a/b/cgroup.procs"},
		{"v1 root", "8:pids:/\n", map[string]string{"pids/cgroup.procs": me}, false, "pids/cgroup.procs"},
		{"v1 with a colon", "8:pids:/a:b\n", map[string]string{"pids/a:b/cgroup.procs": me}, false, "pids/a:b/cgroup.procs"},
		{"v2", "1:cpu:/x\n0::/c\n", map[string]string{"c/cgroup.procs": me}, true, "c/cgroup.procs"},
		{"somebody else's", "8:pids:/a\n", map[string]string{"pids/a/cgroup.procs": "1\n"}, false, ""},
		{"outside", "0::/../c\n", map[string]string{"c/cgroup.procs": me}, true, ""},
		{"not mounted", "8:pids:/a\n", nil, false, ""},
		{"no controller", "8:cpu:/a\n", map[string]string{"pids/a/cgroup.procs": me}, false, ""},
		{"nothing", "", nil, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &Hierarchy{root: tree(t, c.files), v2: c.v2}
			fd, err := h.ownProcesses(c.where)
			if c.want == "" {
				if err == nil {
					t.Fatal("found one")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), "list")
			defer f.Close()
			got, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if want, err := os.Stat(filepath.Join(h.root, c.want)); err != nil || !os.SameFile(got, want) {
				t.Errorf("found another file than %s (%v)", c.want, err)
			}
		})
	}
}

// TestPrepareMove moves this process after a pause, and then not again at once.
func TestPrepareMove(t *testing.T) {
	t.Parallel()
	where, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.Create(filepath.Join(t.TempDir(), "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	h := &Hierarchy{own: processList{where: string(where), fd: int(list.Fd())}}
	moved := func(times int) {
		t.Helper()
		want := strings.Repeat(strconv.Itoa(os.Getpid()), times)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			got, err := os.ReadFile(list.Name())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) == want {
				return
			}
			if len(got) > len(want) || time.Now().After(end) {
				t.Fatalf("%q was written, want %q", got, want)
			}
		}
	}
	pause := func(since time.Duration) int64 {
		at := time.Now().Add(-since).UnixNano()
		h.own.moved.Store(at)
		return at
	}
	at := pause(time.Minute)
	h.PrepareMove()
	if h.own.moved.Load() == at {
		t.Error("after a pause: did not move")
	}
	moved(1)
	times := 1
	for { // until this took no longer than one move is good for
		at = pause(0)
		h.PrepareMove()
		again := h.own.moved.Load() != at
		if time.Now().UnixNano()-at < int64(quickFor) {
			if again {
				t.Error("just after another: was moved again")
			}
			break
		}
		if again {
			times++
			moved(times)
		}
	}
	at = pause(-time.Hour) // the clock was set back: not just now
	h.PrepareMove()
	if h.own.moved.Load() == at {
		t.Error("after the clock was set back: did not move")
	}
	moved(times + 1)
}

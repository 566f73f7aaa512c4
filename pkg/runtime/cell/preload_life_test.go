package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/tracee"
)

// onlyPreload returns the only preload.
func onlyPreload(t *testing.T, r *Runtime) *preload {
	t.Helper()
	r.cells.loaded.mu.Lock()
	defer r.cells.loaded.mu.Unlock()
	for _, have := range r.cells.loaded.live {
		if have.preload != nil {
			return have.preload
		}
	}
	t.Fatal("there is no preload")
	return nil
}

// TestPreloadedMemory checks that preloaded memory does not count as the program's until it writes to it.
// Memory that it allocates counts, and is limited.
func TestPreloadedMemory(t *testing.T) {
	i := modules(t, map[string]string{"assay_large": slow + "data = bytearray(b'x' * (64 << 20))\n"})
	i.imports = "assay_large"
	i.warm(t)
	if rep, _ := i.run(t, "import assay_large"); rep.Usage.MemoryPeakBytes > 24<<20 {
		t.Errorf("64 MiB of the preload: the program has %d", rep.Usage.MemoryPeakBytes)
	}
	if got := hugePages(t, onlyPreload(t, i.r).frozen.PIDs()[0]); got < 60<<10 {
		t.Errorf("of 64 MiB %d KiB are on huge pages: each fork copies an entry for each other page", got)
	}
	writes := "import assay_large\nd = assay_large.data\nfor n in range(0, len(d), 4096): d[n] = 1\nprint(d[4096])"
	if rep, preloaded := i.run(t, writes); !preloaded || rep.Stdout.Text != "1\n" || rep.Usage.MemoryPeakBytes < 64<<20 {
		t.Errorf("written to: %q, %d bytes", rep.Stdout.Text, rep.Usage.MemoryPeakBytes)
	}
	if got := i.forked(t, "import assay_large\nprint(assay_large.data[4096])"); got != "120\n" {
		t.Errorf("the next program finds %s", got)
	}
	i.edit = func(p *policy.Policy) { p.Memory = 32 * job.MiB }
	if rep, preloaded := i.run(t, writes); !preloaded || rep.Outcome != job.OutOfMemory {
		t.Errorf("within 32 MiB: %s", rep.Outcome)
	}
}

// hugePages is how much of a process's memory is on such, in KiB.
func hugePages(t *testing.T, pid int) (kib int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if _, err := fmt.Sscanf(line, "AnonHugePages: %d kB", &kib); err == nil {
			break
		}
	}
	return kib
}

// TestPreloadedUsers checks that concurrent programs have different users on the host, and none has the user
// of its original: the kernel limits some resources by user only.
func TestPreloadedUsers(t *testing.T) {
	r := newRuntime(t, preloading)
	i := importing{r: r, imports: "asyncio"}
	i.warm(t)
	p := onlyPreload(t, r)
	seen := map[string]int{}
	note := func(pid int) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(data)) {
			for _, what := range []string{"Uid:", "Gid:"} {
				if rest, ok := strings.CutPrefix(line, what); ok {
					f := strings.Fields(rest)
					if f[0] != f[1] || f[0] != f[2] || f[0] != f[3] {
						t.Errorf("process %d is several users: %s", pid, line)
					}
					seen[what+f[0]]++
				}
			}
		}
	}
	for _, pid := range p.frozen.PIDs() {
		note(pid)
	}
	const programs = 4
	for range programs {
		s, err := p.newSlot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		note(s.job.pid)
		if s.hostUID() == p.slot.hostUID() {
			t.Error("a program is the user of what it was forked from")
		}
	}
	if len(seen) != 2*(programs+1) { // the copies are one
		t.Errorf("users and groups: %v", seen)
	}
}

// TestPreloadStandsStill checks that a preload and its original do not run any more, so programs cannot
// communicate through them.
func TestPreloadStandsStill(t *testing.T) {
	i := importing{r: newRuntime(t, preloading), imports: "asyncio"}
	i.warm(t)
	p := onlyPreload(t, i.r)
	look := func() (sum uint64) {
		for _, pid := range append(p.frozen.PIDs(), p.slot.job.pid) {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				t.Error(err)
				continue
			}
			fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
			if fields[0] != "t" {
				t.Errorf("process %d is in state %s, not held", pid, fields[0])
			}
			n, err := strconv.ParseUint(fields[11], 10, 64) // in user mode
			if err != nil {
				t.Error(err)
			}
			sum += n
		}
		return sum
	}
	cpu := func() (sum uint64) { // between two forks, which slots that are made ahead need at any time
		if err := p.frozen.Between(func() error { sum = look(); return nil }); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := cpu()
	for _, pid := range append(p.frozen.PIDs(), p.slot.job.pid) {
		if err := errors.Join(unix.Kill(pid, unix.SIGCONT), unix.Kill(pid, unix.SIGUSR1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		i.forked(t, "import asyncio\nasyncio.stain = getattr(asyncio, 'stain', 0) + 1\nassert asyncio.stain == 1")
	}
	if after := cpu(); after != before {
		t.Errorf("%d ticks of the clock in user mode, %d before", after, before)
	}
}

// TestPreloadDies checks that a runtime that loses a program's original runs the programs without it, and
// soon has another.
func TestPreloadDies(t *testing.T) {
	r := newRuntime(t, preloading)
	i := importing{r: r, imports: "asyncio"}
	i.warm(t)
	p := onlyPreload(t, r)
	if err := unix.Kill(slices.Max(p.frozen.PIDs()), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.frozen.Done()
	if rep, preloaded := i.run(t, "import asyncio\nprint('fine')"); preloaded || rep.Stdout.Text != "fine\n" {
		t.Errorf("without it: %q", rep.Stdout.Text)
	}
	r.cells.loaded.expire(time.Now())
	i.warm(t)
	if onlyPreload(t, r) == p {
		t.Error("it is the same")
	}
}

// TestPreloadBudget checks that unused preloads go, and the least recently used ones if memory is short,
// without a trace.
func TestPreloadBudget(t *testing.T) {
	data := slow + "data = bytearray(b'x' * (40 << 20))\n"
	i := modules(t, map[string]string{"assay_a": data, "assay_b": data, "assay_c": data})
	i.r.cells.loaded.cells.cfg.PreloadMemory = 128 * job.MiB
	have := func() string {
		i.r.cells.loaded.mu.Lock()
		defer i.r.cells.loaded.mu.Unlock()
		var names []string
		for _, name := range []string{"assay_a", "assay_b", "assay_c"} {
			for key, p := range i.r.cells.loaded.live {
				if key.modules == name && p.preload != nil {
					names = append(names, name)
				}
			}
		}
		return strings.Join(names, " ")
	}
	for _, i.imports = range []string{"assay_a", "assay_b"} {
		i.warm(t)
	}
	i.imports = "assay_a"
	i.forked(t, "import assay_a")
	i.imports = "assay_c"
	i.warm(t)
	if got := have(); got != "assay_a assay_c" {
		t.Errorf("within 128 MiB there are %s", got)
	}
	if n, bytes := i.r.cells.loaded.levels(); n != 2 || bytes < 80<<20 || bytes > 128<<20 {
		t.Errorf("%d of %d bytes", n, bytes)
	}
	// A running program continues while its original ends.
	var running sync.WaitGroup
	running.Go(func() {
		if got := i.forked(t, "import assay_c, time\ntime.sleep(1)\nprint('fine')"); got != "fine\n" {
			t.Errorf("the last program says %q", got)
		}
	})
	time.Sleep(300 * time.Millisecond)
	i.r.cells.loaded.expire(time.Now().Add(time.Hour))
	if got := have(); got != "" {
		t.Errorf("an hour later there are %s", got)
	}
	running.Wait()
	eventually(t, "no slots are left", func() bool { return len(cellLeftovers(t, i.r)) == 0 })
}

// A cell that ends takes its preloads along.
func TestPreloadOfAnOldCell(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { preloading(c); c.CellAge = 3 * time.Second; c.WarmIdle = 200 * time.Millisecond })
	i := importing{r: r, imports: "asyncio"}
	i.warm(t)
	first := onlyPreload(t, r)
	eventually(t, "the cell is old", func() bool {
		if rep, _ := i.run(t, "import asyncio"); rep.Outcome != job.Succeeded {
			t.Errorf("%s: %s", rep.Outcome, rep.Message)
		}
		return !first.alive()
	})
	i.warm(t)
	eventually(t, "the old cell goes", func() bool {
		r.cells.mu.Lock()
		defer r.cells.mu.Unlock()
		return !r.cells.old[first.slot.cell]
	})
}

// Warm slots of programs with imports are there ahead of them, and are as good. Of those few may be plain ones: on a busy
// host a fork is late now and then, and a program imports by itself.
func TestPreloadedSlotsAreWarm(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { preloading(c); c.CellWarm = 4 })
	i := importing{r: r, imports: "asyncio"}
	i.warm(t)
	const programs = 50
	late := 0
	for range programs {
		key := onlyPreload(t, r).poolKey()
		ready := false
		for deadline := time.Now().Add(10 * time.Second); !ready && time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
			ready = r.cells.pool.Ready(key) > 0
		}
		rep, preloaded := i.run(t, "import asyncio\nprint(1)") // which has the pool try again, if it could not make one
		if rep.Stdout.Text != "1\n" {
			t.Fatalf("%s: %q %s", rep.Outcome, rep.Stdout.Text, rep.Stderr.Text)
		}
		if !ready || !preloaded {
			late++
			i.warm(t)
		}
	}
	if late > programs/10 {
		t.Errorf("for %d of %d programs no slot was made ahead, or no good one", late, programs)
	}
}

// TestPreloadedAtOnce checks that many concurrent programs all run.
func TestPreloadedAtOnce(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { preloading(c); c.CellWarm = 8 })
	i := importing{r: r, imports: "asyncio"}
	i.warm(t)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for m := range 20 {
				code := fmt.Sprintf("import asyncio, sys\nasync def f(): return %d\nprint(asyncio.run(f()))\nsys.exit(%d)", n*100+m, m)
				rep, _ := i.run(t, code)
				if rep.ExitCode == nil || *rep.ExitCode != m || rep.Stdout.Text != fmt.Sprintln(n*100+m) {
					t.Errorf("program %d: %s %s %q", m, rep.Outcome, rep.Message, rep.Stdout.Text)
				}
			}
		})
	}
	all.Wait()
}

// Every copy of an interpreter makes forks, and each its own message's: many at once are all right.
func TestPreloadCopies(t *testing.T) {
	i := importing{r: newRuntime(t, preloading), imports: "asyncio"}
	i.warm(t)
	p := onlyPreload(t, i.r)
	if n := len(p.frozen.PIDs()); n != preloadCopies() || n < 2 {
		t.Fatalf("%d copies", n)
	}
	var all errgroup.Group
	slots := make([]*slot, 24)
	for n := range slots {
		all.Go(func() (err error) {
			slots[n], err = p.newSlot(t.Context())
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, s := range slots {
		defer s.Close()
		parents[parentOf(t, s.job.pid)]++
		for _, name := range tracee.Spaces[:2] {
			box, err1 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.sup.PID, name))
			its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.job.pid, name))
			if err := errors.Join(err1, err2); err != nil || box != its {
				t.Errorf("its %s namespace is %s, its box's %s (%v)", name, its, box, err)
			}
		}
	}
	for _, pid := range p.frozen.PIDs() {
		if parents[pid] == 0 {
			t.Errorf("nothing was forked from copy %d: %v", pid, parents)
		}
	}
}

func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, err = fmt.Sscan(strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))[1], &parent)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// TestPreloadsCloseAmidForks checks that a runtime that is closed during many forks soon ends all processes.
// It also waits for a process forked by one that was killed just then.
func TestPreloadsCloseAmidForks(t *testing.T) {
	for n := range 10 {
		r := newRuntime(t, preloading)
		importing{r: r, imports: "asyncio"}.warm(t)
		p := onlyPreload(t, r)
		var forks sync.WaitGroup
		for range 8 {
			forks.Go(func() {
				for r.cells.background.Context().Err() == nil {
					if s, err := p.newSlot(r.cells.background.Context()); err == nil {
						s.Close()
					}
				}
			})
		}
		time.Sleep(time.Duration(50+20*n) * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		err := r.Close(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		forks.Wait()
	}
}

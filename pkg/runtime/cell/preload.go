package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/packet"
	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
	"github.com/assay-run/assay/pkg/runtime/tracee"
)

// preload is an interpreter with imported modules, from which programs of one cell are forked. Its
// imports may be a tenant's code, so it is confined like a program: it runs in a slot with its own
// box, user and control group. After its imports it is stopped permanently: see tracee.Frozen. The
// boxes of its forks are nested in its own, because only there may a process without capabilities
// be moved. The outer box contains nothing that runs, and each inner box has all the walls of a
// plain one.
type preload struct {
	preloadKey
	slot    *slot
	program runtime.Process
	conn    *packet.Conn
	frozen  *tracee.Frozen
	parent  *zygote               // of its forks
	known   map[string]moduleInfo // about its modules
	names   map[string]bool       // top-level names of all imported modules
	memory  int64
	nets    networks      // of its forks
	over    chan struct{} // closed to end it
	end     func()
	ended   chan struct{} // closed when its program has ended
}

// preloadLink is the descriptor of its connection to the worker.
const preloadLink = 6

// Limits of a preloading interpreter.
const (
	preloadTime      = 30 * time.Second // to import, on an overloaded machine
	preloadProcesses = 64
	preloadProcess   = 100
	preloadLife      = job.Duration(1000 * time.Hour)
	preloadTables    = 16 * job.GiB // for the kernel's memory of all forks; nothing else can grow any more
)

// unusable is the reason why some modules cannot be preloaded: the interpreter would differ from a
// fresh one, or the import failed.
type unusable struct{ why string }

func (e *unusable) Error() string { return e.why }

// newPreload starts an interpreter in the cell that imports the modules of key, within ctx.
func (c *cell) newPreload(ctx context.Context, key preloadKey, memory job.Size) (_ *preload, err error) {
	// Its process number differs from programs', because libraries use it to detect a fork.
	s, err := c.slotWith(ctx, key.zygote, sandbox.DefaultLayout, guest.Box{Holds: true, First: preloadProcess})
	if err != nil {
		return nil, err
	}
	p := &preload{preloadKey: key, slot: s, names: map[string]bool{}, known: map[string]moduleInfo{}, over: make(chan struct{}), ended: make(chan struct{})}
	p.end = sync.OnceFunc(func() {
		close(p.over)
		if p.program != nil {
			p.program.Stop()
		}
	})
	defer func() {
		if err != nil {
			p.end()
			s.Close()
		}
	}()
	if s.job == nil {
		return nil, &unusable{"no interpreter waits in its cell"}
	}
	if err := p.run(ctx, memory); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.conn.Close()
		}
	}()
	if err := p.bring(ctx); err != nil {
		return nil, err
	}
	p.frozen, err = tracee.Freeze(ctx, s.job.pid, preloadLink, preloadCopies(), func() error { return p.conn.Send([]byte("f")) }, p.allow)
	if err != nil {
		return nil, &unusable{err.Error()}
	}
	p.parent = &zygote{kind: key.zygote, gone: p.frozen.Done()}
	p.memory = residentOf(p.frozen.PIDs()[0]) // shared with its forks
	limits := cgroup.Limits{Memory: int64(memory + preloadTables), CPU: float64(p.cores), Processes: preloadProcesses}
	if err := s.Group.Limit(limits); err != nil {
		p.frozen.End()
		return nil, err
	}
	return p, nil
}

// run starts the attempt of p, which lasts as long as p.
func (p *preload) run(ctx context.Context, memory job.Size) error {
	var open unix.Rlimit
	if err := unix.Prlimit(p.slot.job.pid, unix.RLIMIT_NOFILE, nil, &open); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	ours, theirs, err := packet.Pair()
	if err != nil {
		return err
	}
	p.conn = ours
	link := os.NewFile(uintptr(theirs), "link")
	pol := policy.Default()
	pol.Isolation, pol.CPU, pol.Memory, pol.Processes = policy.Cell, float64(p.cores), memory, preloadProcesses
	pol.Wall, pol.CPUTime, pol.OpenFiles = preloadLife, preloadLife, int(open.Max) // programs may lower it
	pol.MainStack = guest.MostStack
	p.program, err = p.slot.Start(context.WithoutCancel(ctx), runtime.Attempt{
		Service: sandbox.PreloadService, Plan: &policy.Plan{Policy: pol}, Link: link,
	})
	_ = link.Close()
	if err != nil {
		p.conn.Close()
		return &unusable{"it cannot be started: " + err.Error()}
	}
	go func() {
		defer close(p.ended)
		_, _ = p.program.Wait()
	}()
	return nil
}

// bring makes p import its modules.
func (p *preload) bring(ctx context.Context) error {
	ask, err := json.Marshal(map[string]any{"modules": strings.Fields(p.modules), "copies": preloadCopies()})
	if err != nil {
		return err
	}
	if err := p.conn.Send(ask); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go func() { // its connection has another end in this process
		select {
		case <-p.ended:
			_ = p.conn.File.SetReadDeadline(time.Unix(1, 0))
		case <-done:
		}
	}()
	defer p.conn.BindContext(ctx)()
	buf := make([]byte, guest.MaxMessage)
	n, _, err := p.conn.Receive(buf)
	switch {
	case ctx.Err() != nil:
		return &unusable{"its imports take too long"}
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
		return &unusable{"the interpreter ended while it imported"}
	case err != nil:
		return fmt.Errorf("wait for imports: %w", err)
	}
	var said struct {
		Unusable string              `json:"unusable"`
		Took     map[string]float64  `json:"took"`
		Names    []string            `json:"names"`
		Inside   map[string][]string `json:"inside"`
	}
	if err := json.Unmarshal(buf[:n], &said); err != nil {
		return &unusable{"the interpreter breaks its protocol"}
	}
	if said.Unusable != "" {
		return &unusable{said.Unusable}
	}
	for name, took := range said.Took {
		k := moduleInfo{took: took, inside: map[string]bool{}}
		for _, inner := range said.Inside[name] {
			k.inside[inner] = true
		}
		p.known[name] = k
	}
	for _, name := range said.Names {
		p.names[name] = true
	}
	return nil
}

// preloadCopies returns how many forks of a preload may run at once. Each fork keeps two processes
// busy in turn, and half of the cores belong to programs.
func preloadCopies() int { return min(max(goruntime.NumCPU()/2, 2), tracee.MaxCopies) }

// allow checks that programs can be forked from the process that is about to stop, in addition to
// existing copies.
func (p *preload) allow(t *tracee.Process, before int) error {
	if n, err := p.slot.lease.Processes(); err != nil || n != int64(2+before) {
		return errors.Join(err, fmt.Errorf("an import left %d processes running", n-int64(2+before)))
	}
	return t.Prepare(p.slot.ofImage)
}

// residentOf returns the anonymous memory of a process in bytes.
func residentOf(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 3 {
		return 0
	}
	all, _ := strconv.ParseInt(fields[1], 10, 64)
	files, _ := strconv.ParseInt(fields[2], 10, 64)
	return (all - files) * int64(os.Getpagesize())
}

// close ends p, after which nothing may be forked from it.
func (p *preload) close() {
	p.end()
	p.frozen.End()
	p.conn.Close()
	p.nets.close()
	p.slot.Close()
}

// suits reports whether an attempt may run in a fork of p: its imports would behave as p's did.
func (p *preload) suits(a *runtime.Attempt) bool {
	pol := &a.Plan.Policy
	program := a.Service == "" && a.Program.Python != nil
	if p.zygote == guest.ZygoteServices {
		program = a.Service != "" && !a.Forks // a session that may be copied uses another mechanism
	}
	if !program || len(pol.Env.Set)+len(a.Secrets) > 0 || sandbox.CoresOf(pol.CPU) != p.cores {
		return false
	}
	for _, f := range a.Files {
		for part := range strings.SplitSeq(f.Path, "/") {
			if name, _, _ := strings.Cut(part, "."); p.names[name] {
				return false
			}
		}
	}
	return true
}

// alive reports whether p can be forked.
func (p *preload) alive() bool {
	select {
	case <-p.frozen.Done():
		return false
	case <-p.over:
		return false
	default:
		return p.slot.cell.fresh() && p.slot.sup.Running()
	}
}

// newSlot creates a slot with a waiting fork of p.
func (p *preload) newSlot(ctx context.Context) (_ *slot, err error) {
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	if err := p.slot.family.join(); err != nil {
		return nil, err
	}
	c, err := p.slot.newBox(ctx, p)
	if err != nil {
		p.slot.family.leave()
		return nil, fmt.Errorf("make a box: %w", err)
	}
	c.joined = true
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := c.forkPreloaded(ctx); err != nil {
		return nil, err
	}
	if !c.cell.cells.register(c) {
		return nil, background.ErrClosed
	}
	return c, nil
}

// tryForks creates a slot as a test, because the fork handlers of an import may hang. No program
// should wait for that.
func (p *preload) tryForks(ctx context.Context) error {
	s, err := p.newSlot(ctx)
	if err != nil {
		return &unusable{"a fork of it does not start a program: " + err.Error()}
	}
	s.Close()
	return nil
}

// forkPreloaded forks the process of c and waits until it is ready.
func (c *slot) forkPreloaded(ctx context.Context) error {
	box, err := c.openSpaces(tracee.ForkedSpaces)
	if err != nil {
		return err
	}
	defer closeAll(box)
	// An earlier job's limits may be too low to wait with.
	def := policy.Default()
	if l := c.lease.Limits; l != (cgroup.Limits{}) && (l.Memory < int64(def.Memory) || l.CPU < def.CPU) {
		if err := c.lease.Limit(cgroup.Limits{Memory: int64(def.Memory), CPU: def.CPU, Processes: int64(def.Processes)}); err != nil {
			return err
		}
	}
	ours, theirs, err := packet.Pair()
	if err != nil {
		return err
	}
	p := c.preload
	c.job = &forked{zygote: p.parent, slot: ours, ended: make(chan unix.WaitStatus, 1)}
	var proc *process.Process
	send := func() error { return p.conn.Send([]byte("f"), append(c.net.files([]int{theirs}), box...)...) }
	reap, err := p.frozen.Fork(c.job.ended, send, func(t *tracee.Process) (err error) {
		if proc, err = c.arrival(t.PID()); err != nil {
			return err
		}
		c.job.pid = t.PID()
		return c.settle(t)
	})
	_ = unix.Close(theirs) // otherwise the end of the other side is not visible
	if err != nil {
		slog.WarnContext(ctx, "preloaded interpreter ended", "modules", p.modules, "error", err)
		p.end()
		if proc != nil {
			proc.Close()
		}
		return fmt.Errorf("fork an interpreter with its imports: %w", err)
	}
	go reap(proc)
	defer ours.BindContext(ctx)()
	if _, err := ours.Expect(guest.BoxWaiting); err != nil {
		return fmt.Errorf("fork an interpreter with its imports: %w", err)
	}
	return nil
}

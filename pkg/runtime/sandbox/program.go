package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox/owntime"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Time limits of steps that usually take microseconds.
const (
	GateTime  = 10 * time.Second // for the guest to fork, or to report a program's end, on an overloaded machine
	drainTime = time.Second      // for output to end after all writers have ended
)

// Program is one process to run in a slot, and its resources.
type Program struct {
	Args, Env []string
	Dir       string
	stdin     []byte
	in, out   *os.File          // see runtime.Attempt: Stdin and Stdout
	output    io.Writer         // likewise
	files     []*os.File        // descriptors from 3 on; the caller closes them
	Python    bool              // argv is the harness, so a running interpreter can be used
	Asked     map[string]string // the job's part of env
	stream    *Stream           // nil: none
	Forks     bool              // it may be copied while it runs
	cpuGroup  uint64            // see runtime.Attempt
	cores     unix.CPUSet       // its cores, chosen at its start; empty: any
	Limits    *policy.Policy    // wall, cpu_time, stdout, stderr; the slot has the other limits
	budget    *runtime.CPUBudget
	toll      *toll.Meter         // of the attempt
	waits     *runtime.Waits      // see runtime.Attempt; nil: its own
	metered   func(runtime.Meter) // see runtime.Attempt; optional
	written   func(runtime.Tail)  // likewise
	begun     func()              // likewise
	keep      keep
}

// Exit is the end of a program, and its usage.
type Exit struct {
	ending
	stdout, stderr job.Output
	kept           storedBytes
	started        time.Time
	wall           time.Duration
	waited         time.Duration // part of it without a core
	usage          cgroup.Usage  // its CPU time includes the worker's work for it
	group          cgroup.Usage  // without that work
	tolled         time.Duration // the worker's work for the attempt until the program's end
}

// Box runs programs in a place, one after the other.
type Box interface {
	// Serves reports whether an interpreter with all services waits here, for a program with this
	// environment.
	Serves(asked map[string]string) bool
	// Init returns process 1 of its namespaces.
	Init() *process.Process
	// Kill kills all of its processes.
	Kill() error
	// Begin starts p with these descriptors under the limits of its place. It returns the start time
	// of user code.
	Begin(ctx context.Context, p *Program, files []*os.File) (time.Time, error)
	// Over reports whether the program has ended by itself, possibly before End can report it.
	Over() bool
	// End waits for the end of the program and all of its processes, and fills in e.
	End(e *Exit) error
}

// execute runs p in b and returns after all of its processes have ended. An error means that the
// sandbox failed, not the program.
func (s *Place) execute(ctx context.Context, b Box, p *Program, before cgroup.Usage) (*Exit, error) {
	seat, err := allocator.Take(CoresOf(p.Limits.CPU), p.cpuGroup, p.stream != nil)
	if err != nil {
		return nil, err
	}
	defer seat.Leave()
	p.cores = seat.Set()
	stop := newStopper(b.Kill)
	m := &meter{place: s, before: before, budget: p.budget, toll: p.toll, tolled: p.toll.Spent()}
	std, err := openStreams(p, s.Null, s.Scratch.UID+ProgramUID, stop, s.mask)
	if err != nil {
		return nil, err
	}
	defer std.close()
	defer m.close()
	p.offer(m, std)
	own := owntime.New(s.Group, m.progress, p.messages())
	own.Toll = p.toll
	if p.waits != nil { // one of many that add up
		own.Sum()
	}
	e := &Exit{}
	e.started, err = b.Begin(ctx, p, std.childFiles(p.files))
	std.closeChildFiles()
	if err != nil {
		return nil, broken(ctx, err)
	}
	own.Start(e.started)
	watching := s.watch(ctx, b, stop, p, own, m, seat)
	p.tell()
	err = s.blame(b.End(e), e, before)
	e.wall = time.Since(e.started)
	meterErr := watching(e.started.Add(e.wall))
	e.waited = own.LastWait()
	p.stream.end()
	std.finish(e)
	if e.stop = stop.reason(); e.stop == "" && err == nil {
		err = meterErr
	}
	switch e.stop {
	case stopOurs:
		if ctx.Err() == nil { // so that no program runs without supervision
			return nil, broken(ctx, fmt.Errorf("watch its limits: %w", meterErr))
		}
		return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
	case stopUnread, stopStarved:
		return nil, e.starved()
	}
	if err != nil && (e.stop == "" || errors.Is(err, process.ErrStillRunning)) {
		return nil, broken(ctx, err)
	}
	if e.usage, err = m.usage(); err != nil {
		return nil, err
	}
	m.exhausts(e.usage, 0) // charges the rest to the budget
	// Report the same time as for the limit: see watch.left.
	e.waited = min(e.waited, max(e.wall-owntime.Needed(e.usage.CPU, p.Limits.CPU), 0))
	if e.stop == "" { // time beyond its limit passed after its end
		e.waited = max(e.waited, e.wall-p.Limits.Wall.D())
	}
	e.group, e.tolled = e.usage, p.toll.Spent()
	e.usage.CPU += e.tolled - m.tolled
	if s.Foreign { // the sandbox's kernel's part is not the program's
		e.usage.ProcessesPeak, e.usage.ForksRefused = 0, 0
		e.usage.MemoryPeak = min(max(e.usage.MemoryPeak-s.Idle, 0), int64(p.Limits.Memory))
	}
	e.oomKills, e.refused = e.usage.OOMKills, e.usage.ForksRefused
	e.noSpace, e.noInodes, err = s.Scratch.full()
	return e, err
}

// starved returns the error of a program that was stopped because it, or the worker, had no core.
func (e *Exit) starved() error {
	if e.stop == stopUnread {
		return fmt.Errorf("%w: it kept its limit, and the worker did not read that for %s", runtime.ErrStarved, GateTime)
	}
	return fmt.Errorf("%w: in %s it waited for %s", runtime.ErrStarved, e.wall.Round(time.Millisecond), e.waited.Round(time.Millisecond))
}

// offer passes the functions for observing the running program to the attempt's callbacks.
func (p *Program) offer(m *meter, std *streams) {
	if p.metered != nil {
		p.metered(m)
	}
	if p.written != nil {
		p.written(std.tail)
	}
}

// tell calls the attempt's callback for the program's start.
func (p *Program) tell() {
	if p.begun != nil {
		p.begun()
	}
	p.stream.begin()
}

// messages returns the program's messages, if it shares its waits with their reader.
func (p *Program) messages() owntime.Messages {
	if p.stream == nil || p.waits == nil {
		return nil
	}
	return &messages{stream: p.stream, waits: p.waits, read: p.waits.Responses()}
}

// broken marks an error around a program that was not stopped.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", runtime.ErrBroken, err)
}

// blame decides who caused the end of the guest. If the job ran out of memory, the kernel may have
// killed the guest. Then the program is at fault, and all of its processes have ended.
func (s *Place) blame(err error, e *Exit, before cgroup.Usage) error {
	if !errors.Is(err, ErrGuest) || errors.Is(err, process.ErrStillRunning) {
		return err
	}
	u, uerr := s.Group.Usage()
	if uerr != nil || u.Since(before).OOMKills == 0 {
		return err
	}
	e.Status = unix.WaitStatus(unix.SIGKILL)
	return nil
}

// ErrGuest means that the process that starts programs in a sandbox has ended.
var ErrGuest = errors.New("the guest ended while its program ran")

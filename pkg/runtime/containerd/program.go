package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/process"
)

// How patient the worker is with what ought to take microseconds.
const (
	gateTime  = 10 * time.Second // for the guest to fork, on a machine without any time left
	drainTime = time.Second      // for output to end once nobody is left to write
)

// program is one process to run in a slot, with what it leaves in its wake.
type program struct {
	argv, env []string
	dir       string
	stdin     []byte
	files     []*os.File        // descriptors from 3 on; the caller closes them
	python    bool              // argv is the harness: an interpreter that runs already will do
	asked     map[string]string // of env, what the job set
	talk      *conversation     // nil: none
	forks     bool              // it may be copied while it runs
	together  uint64            // see runtime.Attempt
	cores     unix.CPUSet       // that it is bound to, chosen when it begins; none: any
	limits    *policy.Policy    // wall, cpu_time, stdout, stderr; the rest is the slot's
	budget    *runtime.CPUBudget
	waits     *runtime.Waits      // see runtime.Attempt; nil: its own
	metered   func(runtime.Meter) // see runtime.Attempt; nil: nobody asks
}

// ended is how a program ended and what it used.
type ended struct {
	ending
	stdout, stderr job.Output
	started        time.Time
	wall           time.Duration
	waited         time.Duration // of that it could run and had no core
	usage          cgroup.Usage
}

// box runs programs in a place, one after the other.
type box interface {
	// serves reports whether an interpreter waits here that has all services, for
	// a program that asks for this environment.
	serves(asked map[string]string) bool
	// init is process 1 of its namespaces.
	init() *process.Process
	// kill kills everything in it.
	kill() error
	// begin starts p, with these descriptors, under the limits of its place. It
	// returns when user code started.
	begin(ctx context.Context, p *program, files []*os.File) (time.Time, error)
	// end waits for the program to end and for everything that it left to be
	// gone. It fills in how that came about.
	end(e *ended) error
}

// execute runs p in b and returns when nothing of it is left. An error means
// that the sandbox failed, not the program.
func (s *place) execute(ctx context.Context, b box, p *program, before cgroup.Usage) (*ended, error) {
	seat, err := seats.take(coresOf(p.limits.CPU), p.together, p.talk != nil)
	if err != nil {
		return nil, err
	}
	defer seat.leave()
	p.cores = seat.set()
	stop := newStopper(b.kill)
	io, err := openStreams(p, s.null, s.scratch.uid+programUID, stop, s.mask)
	if err != nil {
		return nil, err
	}
	defer io.close()
	m := &meter{place: s, before: before, budget: p.budget}
	defer m.close()
	if p.metered != nil {
		p.metered(m.spent)
	}
	e := &ended{}
	e.started, err = b.begin(ctx, p, io.theirs(p.files))
	io.closeTheirs()
	if err != nil {
		return nil, broken(ctx, err)
	}
	own := newClock(s.group, m.usage, e.started)
	watching := s.watch(ctx, b.init().PID, stop, p, own, m, seat)
	talking := p.talk.begin(ctx, stop)
	err = s.blame(b.end(e), e, before)
	e.wall = time.Since(e.started)
	meterErr := watching()
	e.waited = own.known()
	talkErr := talking()
	io.finish(e)
	if e.stop = stop.reason(); e.stop == "" && err == nil {
		err = meterErr
	}
	switch e.stop {
	case stopOurs:
		if ctx.Err() == nil { // so that nobody runs beyond limits that nobody watches
			return nil, broken(ctx, fmt.Errorf("watch its limits: %w", meterErr))
		}
		return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
	case stopStarved:
		return nil, fmt.Errorf("%w: in %s it waited for %s", runtime.ErrStarved, e.wall.Round(time.Millisecond), e.waited.Round(time.Millisecond))
	}
	if talkErr != nil {
		return nil, fmt.Errorf("converse: %w", talkErr)
	}
	if err != nil && (e.stop == "" || errors.Is(err, process.ErrUndead)) {
		return nil, broken(ctx, err)
	}
	if e.usage, err = m.usage(); err != nil {
		return nil, err
	}
	m.exhausts(e.usage, 0) // the budget knows the rest now
	// As for its limit, so in what is said of it: see watch.left.
	e.waited = min(e.waited, max(e.wall-needed(e.usage.CPU, p.limits.CPU), 0))
	if s.foreign { // what of it is the sandbox's kernel's is not the program's
		e.usage.ProcessesPeak, e.usage.ForksRefused = 0, 0
		e.usage.MemoryPeak = min(max(e.usage.MemoryPeak-s.idle, 0), int64(p.limits.Memory))
	}
	e.oomKills, e.refused = e.usage.OOMKills, e.usage.ForksRefused
	e.noSpace, e.noInodes, err = s.scratch.full()
	return e, err
}

// broken marks an error around a program that nobody has told to stop.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", runtime.ErrBroken, err)
}

// blame says whose failure it was that the guest ended. Short of the job's memory,
// the kernel may have chosen it: then that was the program's, whose every process
// went with it.
func (s *place) blame(err error, e *ended, before cgroup.Usage) error {
	if !errors.Is(err, errGuest) || errors.Is(err, process.ErrUndead) {
		return err
	}
	u, uerr := s.group.Usage()
	if uerr != nil || u.Since(before).OOMKills == 0 {
		return err
	}
	e.status = unix.WaitStatus(unix.SIGKILL)
	return nil
}

// serves implements box.
func (s *slot) serves(asked map[string]string) bool { return s.python != nil && !startsAfresh(asked) }

// begin implements box.
func (s *slot) begin(ctx context.Context, p *program, files []*os.File) (time.Time, error) {
	filter, err := s.rt.filters.of(p.limits, s.rt.filter)
	if err != nil {
		return time.Time{}, err
	}
	if p.python && s.serves(p.asked) {
		i := s.python
		s.python = nil
		defer i.conn.close()
		return s.admitRun(i.pid, p, i.conn, p.argv, files, filter)
	}
	if err := s.dismiss(ctx); err != nil {
		return time.Time{}, err
	}
	start := guest.Start{Argv: p.argv, Env: p.env, Dir: p.dir, UID: programUID, GID: programGID, Filter: filter}
	if s.foreign {
		start.OpenFiles, start.Processes = uint64(p.limits.OpenFiles), uint64(max(p.limits.Processes-1, 1)) // its kernel does not count the first
		u, err := s.group.Usage()
		if err != nil {
			return time.Time{}, err
		}
		s.idle = u.MemoryPeak
	}
	_, err = s.launch(ctx, start, files, p)
	return time.Now(), err
}

// launch has the guest start a program, and returns its process on the host.
func (s *slot) launch(ctx context.Context, start guest.Start, files []*os.File, p *program) (pid int, err error) {
	g, theirs, err := newGate()
	if err != nil {
		return 0, err
	}
	err = s.link.start(start, append([]*os.File{theirs}, files...))
	_ = theirs.Close()
	if err == nil {
		pid, err = s.enter(ctx, g, p)
	}
	if err != nil {
		g.close()
		return 0, err
	}
	s.gate = g
	return pid, nil
}

// enter waits for the process at the gate, puts it under the job's limits and
// has it go through. The process of a kernel of its own is that of the whole
// sandbox, which is in its group from the start.
func (s *slot) enter(ctx context.Context, g *gate, p *program) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = g.conn.SetDeadline(time.Unix(1, 0)) })()
	pid, err := g.wait()
	if err == nil && !s.foreign {
		err = s.group.Add(pid)
		if n := uint64(p.limits.OpenFiles); err == nil && n > 0 { // from outside, since the sandbox may not raise its own
			err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}, nil)
		}
	}
	if err == nil {
		err = s.admitGate(pid, p, g)
	}
	if err != nil {
		return 0, fmt.Errorf("start the program: %w", errors.Join(err, ctx.Err()))
	}
	return pid, nil
}

var errGuest = errors.New("the guest ended while its program ran")

// end implements box.
func (s *slot) end(e *ended) error {
	if s.gate != nil { // none before an interpreter that waited
		defer s.gate.close()
		err := s.gate.result()
		if !errors.As(err, &e.failure) && err != nil {
			return err
		}
	}
	select {
	case m := <-s.link.ended:
		e.status = unix.WaitStatus(m.Status)
		if m.Error != "" {
			return fmt.Errorf("the guest cannot start a program: %.200s", m.Error)
		}
		return nil
	case <-s.link.gone:
	}
	if err := process.DeathPatience.With(s.group.Usage).Wait(s.container.proc); err != nil {
		return err
	}
	return errGuest
}

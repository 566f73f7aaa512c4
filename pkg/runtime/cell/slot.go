package cell

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/cgroup/lease"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
	"github.com/assay-run/assay/pkg/runtime/packet"
	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// slot is a box of a cell, for one attempt.
type slot struct {
	sandbox.Place
	of      *image.Image
	cell    *cell
	sup     *process.Process // process 1 of the box
	conn    *packet.Conn     // to process 1
	job     *forked          // the waiting interpreter in the box; nil for commands
	lease   *lease.Lease
	net     *network
	user    int      // its number in the cell; 0: parent's user
	python  bool     // the program came from a zygote
	preload *preload // the origin of its interpreter; nil: a zygote
	life    sandbox.Life
	inRun   sync.RWMutex // held by attempt

	family
	running atomic.Pointer[ran] // during attempt

	overdue  chan struct{} // closed when the box should be dead
	deadline sync.Once
}

// firstProcess is the number of a program in its box unless it is a copy: the first process after
// the supervisor.
const firstProcess = 2

// boxTime limits the creation of a box on an overloaded machine.
const boxTime = 20 * time.Second

// newSlot creates a slot without a job. The job's limits are set when it takes the slot.
func (c *cell) newSlot(ctx context.Context, kind byte, l sandbox.Layout) (*slot, error) {
	return c.slotWith(ctx, kind, l, guest.Box{})
}

// slotWith is newSlot with the properties of b that do not follow from the slot.
func (c *cell) slotWith(ctx context.Context, kind byte, l sandbox.Layout, b guest.Box) (_ *slot, err error) {
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	var z *zygote
	if kind != 0 {
		if z, err = c.interpreter(ctx, kind); err != nil {
			return nil, err
		}
	}
	s := &slot{of: c.image, Place: sandbox.Place{Image: c.image.SandboxImage(), Layout: l, Null: filepath.Join(c.dir, "dev", "null")}, cell: c, overdue: make(chan struct{})}
	c.mu.Lock()
	c.slots++ // until release
	c.mu.Unlock()
	defer func() {
		if err != nil {
			s.Close()
			if c.cells.background.Context().Err() != nil {
				err = background.ErrClosed
			}
		}
	}()
	c.cells.cfg.Cgroups.PrepareMove()
	if err := s.makeBox(ctx, b); err != nil {
		return nil, fmt.Errorf("make a box: %w", err)
	}
	own := int64(0) // an interpreter's supervisor stays in the cell's group
	if z == nil {
		own = 1
	}
	if s.lease, err = c.cells.groups.Get(ctx, own); err != nil {
		return nil, err
	}
	s.Group = s.lease
	if z != nil {
		s.job, err = z.fork(ctx, s.sup, s.lease)
	} else if err = s.lease.Add(s.sup.PID); err == nil {
		err = s.conn.Send([]byte{guest.BoxEnter})
	}
	if err != nil {
		return nil, err
	}
	if !c.cells.register(s) {
		return nil, background.ErrClosed
	}
	return s, nil
}

// makeBox makes the launcher create the namespaces.
func (s *slot) makeBox(ctx context.Context, b guest.Box) (err error) {
	def := policy.Default()
	of := s
	for of.copied() { // a copy has its session's user
		of = of.parent
	}
	if s == of {
		if s.user, err = s.cell.users.get(); err != nil {
			return err
		}
	}
	var over *overlay.Overlays
	if s == of { // a copy copies all of its files
		if over, err = s.cell.cells.cfg.Images.Overlays(s.of, s.Layout); err != nil {
			return s.of.Trouble(err)
		}
	}
	if over == nil {
		s.Scratch, err = sandbox.NewDetachedScratch(s.cell.uid+of.user, def.Disk, def.Files, s.Layout)
	} else {
		s.Scratch, err = sandbox.NewScratchOver(s.cell.scratchDir(of.user), s.cell.uid+of.user, def.Disk, def.Files, s.Layout, over)
		err = s.of.Trouble(err)
	}
	if err != nil {
		return err
	}
	b.Paths, b.ReadOnly, b.Nested, b.Own = s.Layout.Paths(), len(s.Layout.Read), s.parent != nil, s.preload != nil
	if s.copied() {
		b.First = firstProcess + s.depth
	}
	request, err := json.Marshal(b)
	if err != nil {
		return err
	}
	var theirs int
	if s.conn, theirs, err = packet.Pair(); err != nil {
		return err
	}
	s.cell.mu.Lock()
	launcher := s.cell.launcher
	s.cell.mu.Unlock()
	files := []int{theirs, int(s.Scratch.Mount.Fd())}
	if s.parent != nil {
		files = append(files, int(s.parent.sup.FD.Fd()))
	}
	nets := s.networks()
	if nets != nil {
		s.net = nets.take()
	}
	if s.net != nil {
		files = s.net.files(files)
	}
	err = launcher.Send(append(binary.LittleEndian.AppendUint32([]byte{guest.CellMake}, uint32(s.hostUID())), request...), files...)
	_ = unix.Close(theirs)
	if err != nil {
		return err
	}
	defer s.conn.BindContext(ctx)()
	pid, err := s.conn.Expect(guest.BoxReady)
	if err != nil {
		return err
	}
	if s.sup, err = process.Open(pid); err != nil || s.net != nil || nets == nil {
		return err
	}
	s.net, err = openNetwork(pid, s.preload != nil)
	return err
}

// copied reports whether s is for a copy of a running program.
func (s *slot) copied() bool { return s.parent != nil && s.preload == nil }

// hostUID returns the host user of the programs in the box.
func (s *slot) hostUID() int { return s.Scratch.UID + sandbox.ProgramUID }

// alive reports whether the box exists and its cell is in use.
func (s *slot) alive() bool { return s.cell.fresh() && s.sup.Running() }

// Serves implements sandbox.Box. A copy is already a service.
func (s *slot) Serves(map[string]string) bool {
	return s.copied() || s.job != nil && s.job.zygote.kind == guest.ZygoteServices
}

// Init implements sandbox.Box.
func (s *slot) Init() *process.Process { return s.sup }

// Kill implements sandbox.Box. The end of process 1 ends its pid namespace. A time limit applies to
// the wait for the report.
func (s *slot) Kill() error {
	s.deadline.Do(func() {
		time.AfterFunc(process.NewsTime, func() {
			close(s.overdue)
			_ = s.conn.File.SetReadDeadline(time.Unix(1, 0))
		})
	})
	return errors.Join(s.killProgram(), s.lease.Hasten())
}

// Begin implements sandbox.Box.
func (s *slot) Begin(ctx context.Context, p *sandbox.Program, files []*os.File) (time.Time, error) {
	argv := p.Args
	to, first := s.conn, s.sup.PID
	s.python = p.Python && s.job != nil
	switch {
	case s.python:
		to, first = s.job.slot, s.job.pid
	case p.Python:
		f, err := sandbox.ContentFile("harness.py", python.Harness, s.hostUID())
		if err != nil {
			return time.Time{}, err
		}
		defer f.Close()
		argv = []string{"python3", "-B", fmt.Sprintf("/proc/self/fd/%d", len(files))}
		files = append(files, f)
	}
	usual := s.cell.cells.filter
	if p.Forks {
		usual = s.cell.cells.forking
	}
	filter, err := s.cell.cells.filters.Of(p.Limits, usual)
	if err != nil {
		return time.Time{}, err
	}
	began, err := s.AdmitRun(first, p, to, argv, files, filter)
	if s.python && s.copied() {
		if err == nil {
			err = s.arrived(ctx)
		}
		if err != nil {
			err = fmt.Errorf("copy the interpreter: %w", err)
		}
	}
	return began, err
}

// Over implements sandbox.Box. Before its zygote reports it, an ended interpreter is a zombie. The
// end of another program is an unread message.
func (s *slot) Over() bool {
	if s.python {
		return len(s.job.ended) > 0 || process.Over(s.job.pid)
	}
	return s.conn.Waits()
}

// End implements sandbox.Box.
func (s *slot) End(e *sandbox.Exit) error {
	if s.python {
		return s.endPython(e)
	}
	var b [16]byte
	for {
		n, _, err := s.conn.Receive(b[:])
		switch {
		case err != nil: // the supervisor is dead, with the whole box
			return errors.Join(sandbox.ErrGuest, s.dead())
		case n == 6 && b[0] == guest.BoxNotBegun:
			e.Failure = &sandbox.Failure{Stage: guest.Stage(b[1]), Errno: unix.Errno(binary.LittleEndian.Uint32(b[2:]))}
		case n == 5 && b[0] == guest.BoxEnded:
			e.Status = unix.WaitStatus(binary.LittleEndian.Uint32(b[1:]))
			return nil
		default:
			return fmt.Errorf("the supervisor of a box breaks its protocol: %q", b[:n])
		}
	}
}

// endPython waits for the interpreter, and then kills the remaining processes.
func (s *slot) endPython(e *sandbox.Exit) error {
	var lost error
	select {
	case e.Status = <-s.job.ended:
		if s.conn.IsClosed() { // the supervisor was killed, with the interpreter
			lost = sandbox.ErrGuest
		}
	case <-s.job.zygoteGone():
		lost = sandbox.ErrGuest
	case <-s.overdue:
		lost = fmt.Errorf("%w: the zygote did not report the end of its process", sandbox.ErrGuest)
	}
	return errors.Join(lost, s.programDead())
}

// dead waits until the box has no processes.
func (s *slot) dead() error {
	return process.DeathPatience.With(s.Group.Usage).Wait(s.sup)
}

// Close implements runtime.Slot: it kills at once and cleans up in the background.
func (s *slot) Close() {
	if !s.life.Close() {
		return
	}
	if s.lease != nil && s.sup != nil {
		_ = s.killProgram()
	}
	if !s.cell.cells.background.Spawn(s.release) {
		s.release()
	}
}

// release frees the slot's resources, when it has no processes.
func (s *slot) release() {
	cells := s.cell.cells
	ctx := context.WithoutCancel(s.cell.cells.background.Context())
	clean := true
	s.endSpares()
	<-s.family.end()
	if s.sup != nil {
		_ = s.sup.Kill()
		if err := s.dead(); err != nil {
			slog.ErrorContext(ctx, "sandbox process still alive; the next sweep will remove it", "error", err)
			clean = false
		}
		s.sup.Close()
	}
	// Meters read the group until then. The next job's files have the same names.
	s.inRun.Lock()
	defer s.inRun.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	if s.job != nil {
		s.job.close()
	}
	if s.Scratch != nil {
		_ = s.Scratch.Close()
	}
	if s.user != 0 && clean {
		s.cell.users.put(s.user)
	}
	if s.lease != nil && clean {
		s.lease.Put(ctx)
	}
	s.giveNetwork(clean)
	cells.mu.Lock()
	delete(cells.slots, s)
	cells.mu.Unlock()
	if s.joined {
		s.parent.leave()
	}
	cells.leave(s.cell)
}

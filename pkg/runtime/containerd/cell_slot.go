package containerd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// cellSlot is a box of a cell that waits for one attempt.
type cellSlot struct {
	place
	cell    *cell
	sup     *process // process 1 of the box
	conn    *packet  // to it
	job     *forked  // an interpreter that waits in the box; nil for commands
	lease   *leased
	net     *network
	user    int      // among the cell's; 0: that of parent
	python  bool     // what runs came from a zygote
	preload *preload // that its interpreter is forked from; nil: a zygote
	state   atomic.Int32
	inRun   sync.RWMutex // held by Run

	family
	running atomic.Pointer[ran] // while Run does

	overdue  chan struct{} // closed when the box should be dead by now
	deadline sync.Once
}

// firstProcess is the number, in its box, of a program that is no copy: that of the
// first process after the supervisor.
const firstProcess = 2

// boxTime bounds the making of a box on a machine without any time left.
const boxTime = 20 * time.Second

// newSlot makes a slot. It needs no job: limits are set when one takes it.
func (c *cell) newSlot(ctx context.Context, kind byte, l layout) (*cellSlot, error) {
	return c.slotWith(ctx, kind, l, guest.Box{})
}

// slotWith is newSlot with a box that has of b what does not follow from the slot.
func (c *cell) slotWith(ctx context.Context, kind byte, l layout, b guest.Box) (_ *cellSlot, err error) {
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	var z *zygote
	if kind != 0 {
		if z, err = c.interpreter(ctx, kind); err != nil {
			return nil, err
		}
	}
	s := &cellSlot{place: place{image: c.image, layout: l, null: filepath.Join(c.dir, "dev", "null")}, cell: c, overdue: make(chan struct{})}
	c.mu.Lock()
	c.slots++ // until release
	c.mu.Unlock()
	defer func() {
		if err != nil {
			s.Close()
			if c.rt.ctx.Err() != nil {
				err = errClosed
			}
		}
	}()
	c.rt.cgroups.PrepareMove()
	if err := s.makeBox(ctx, b); err != nil {
		return nil, fmt.Errorf("make a box: %w", err)
	}
	own := int64(0) // the supervisor of an interpreter stays in the cell's group
	if z == nil {
		own = 1
	}
	if s.lease, err = c.rt.cells.groups.lend(ctx, own); err != nil {
		return nil, err
	}
	s.group = s.lease
	if z != nil {
		s.job, err = z.fork(ctx, s.sup, s.lease)
	} else if err = s.lease.Add(s.sup.pid); err == nil {
		err = s.conn.send([]byte{guest.BoxEnter})
	}
	if err != nil {
		return nil, err
	}
	if !c.rt.cells.register(s) {
		return nil, errClosed
	}
	return s, nil
}

// makeBox has the launcher make the namespaces.
func (s *cellSlot) makeBox(ctx context.Context, b guest.Box) (err error) {
	def := policy.Default()
	of := s
	for of.copied() { // a copy is its session's user
		of = of.parent
	}
	if s == of {
		if s.user, err = s.cell.users.lend(); err != nil {
			return err
		}
	}
	var over *overlays
	if s == of { // a copy brings all of its files along
		if over, err = s.cell.rt.images.overlaysOf(s.image, s.layout); err != nil {
			return s.image.trouble(err)
		}
	}
	if over == nil {
		s.scratch, err = newDetachedScratch(s.cell.uid+of.user, def.Disk, def.Files, s.layout)
	} else {
		s.scratch, err = newScratchOver(s.cell.scratchDir(of.user), s.cell.uid+of.user, def.Disk, def.Files, s.layout, over)
		err = s.image.trouble(err)
	}
	if err != nil {
		return err
	}
	b.Paths, b.ReadOnly, b.Nested, b.Own = s.layout.paths(), len(s.layout.read), s.parent != nil, s.preload != nil
	if s.copied() {
		b.First = firstProcess + s.depth
	}
	request, err := json.Marshal(b)
	if err != nil {
		return err
	}
	var theirs int
	if s.conn, theirs, err = packetPair(); err != nil {
		return err
	}
	s.cell.mu.Lock()
	launcher := s.cell.launcher
	s.cell.mu.Unlock()
	files := []int{theirs, int(s.scratch.mount.Fd())}
	if s.parent != nil {
		files = append(files, int(s.parent.sup.fd.Fd()))
	}
	nets := s.networks()
	if nets != nil {
		s.net = nets.take()
	}
	if s.net != nil {
		files = s.net.files(files)
	}
	err = launcher.send(append(binary.LittleEndian.AppendUint32([]byte{guest.CellMake}, uint32(s.hostUID())), request...), files...)
	_ = unix.Close(theirs)
	if err != nil {
		return err
	}
	defer s.conn.within(ctx)()
	pid, err := s.conn.expect(guest.BoxReady)
	if err != nil {
		return err
	}
	if s.sup, err = openProcess(pid); err != nil || s.net != nil || nets == nil {
		return err
	}
	s.net, err = openNetwork(pid, s.preload != nil)
	return err
}

// copied reports whether s is for a copy of a running program.
func (s *cellSlot) copied() bool { return s.parent != nil && s.preload == nil }

// hostUID is the user of what runs in the box, on the host.
func (s *cellSlot) hostUID() int { return s.scratch.uid + programUID }

// alive reports whether the box is still there, and its cell still in use.
func (s *cellSlot) alive() bool { return s.cell.fresh() && s.sup.running() }

// Run implements runtime.Slot.
func (s *cellSlot) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	s.inRun.RLock()
	defer s.inRun.RUnlock()
	if !s.state.CompareAndSwap(slotReady, slotTaken) {
		return nil, errUsed
	}
	if err := context.Cause(ctx); errors.Is(err, runtime.ErrCanceled) {
		return canceled(a), nil
	} else if err != nil {
		return nil, err
	}
	s.cell.rt.cells.running.Add(1)
	defer s.cell.rt.cells.running.Add(-1)
	p := &a.Plan.Policy
	where := s
	// Only an interpreter is in the job's group where one waits: what process 1 of a
	// box starts needs a box of which that is in the group itself.
	command := a.Service == "" && a.Program.Command != nil
	alone := s.job != nil && !s.copied() && (command || startsAfresh(p.Env.Set) || startsAfresh(a.Secrets))
	suits := s.preload == nil || s.preload.suits(&a)
	if want := layoutOf(p); alone || !suits || !want.equal(s.layout) {
		kind := byte(0)
		if s.job != nil && !alone {
			kind = s.job.zygote.kind
		}
		other, err := s.replace(ctx, kind, want)
		if err != nil {
			return nil, err
		}
		defer other.Close()
		where = other
	}
	if a.Forks {
		s.running.Store(&ran{where, p})
		defer s.running.Store(nil)
	}
	return (&attempt{place: &where.place, box: where, Attempt: a, network: s.cell.rt.network}).run(ctx)
}

// replace makes a slot that is not like the warm ones.
func (s *cellSlot) replace(ctx context.Context, zygote byte, l layout) (*cellSlot, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return s.cell.newSlot(ctx, zygote, l)
}

// startsAfresh reports whether an interpreter reads one of these variables when
// it starts, so that one that runs already will not do.
func startsAfresh(env map[string]string) bool {
	for k := range env {
		if strings.HasPrefix(k, "PYTHON") || strings.HasPrefix(k, "LD_") || strings.HasPrefix(k, "LC_") || k == "LANG" || k == "TZ" {
			return true
		}
	}
	return false
}

// serves implements box. A copy serves already.
func (s *cellSlot) serves(map[string]string) bool {
	return s.copied() || s.job != nil && s.job.zygote.kind == guest.ZygoteServices
}

// init implements box.
func (s *cellSlot) init() *process { return s.sup }

// kill implements box: process 1 takes its whole pid namespace along. Whoever
// waits for the news of that does not wait for ever.
func (s *cellSlot) kill() error {
	s.deadline.Do(func() {
		time.AfterFunc(newsTime, func() {
			close(s.overdue)
			_ = s.conn.file.SetReadDeadline(time.Unix(1, 0))
		})
	})
	return errors.Join(s.killProgram(), s.lease.Hasten())
}

// begin implements box.
func (s *cellSlot) begin(ctx context.Context, p *program, files []*os.File) (time.Time, error) {
	argv := p.argv
	to, first := s.conn, s.sup.pid
	s.python = p.python && s.job != nil
	switch {
	case s.python:
		to, first = s.job.slot, s.job.pid
	case p.python:
		f, err := contentFile("harness.py", python.Harness, s.hostUID())
		if err != nil {
			return time.Time{}, err
		}
		defer f.Close()
		argv = []string{"python3", "-B", fmt.Sprintf("/proc/self/fd/%d", len(files))}
		files = append(files, f)
	}
	usual := s.cell.rt.cells.filter
	if p.forks {
		usual = s.cell.rt.cells.forking
	}
	filter, err := s.cell.rt.filters.of(p.limits, usual)
	if err != nil {
		return time.Time{}, err
	}
	began, err := s.admitRun(first, p, to, argv, files, filter)
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

// end implements box.
func (s *cellSlot) end(e *ended) error {
	if s.python {
		return s.endPython(e)
	}
	var b [16]byte
	for {
		n, _, err := s.conn.recv(b[:])
		switch {
		case err != nil: // the supervisor is dead, and everything with it
			return errors.Join(errGuest, s.dead())
		case n == 6 && b[0] == guest.BoxNotBegun:
			e.failure = &failure{guest.Stage(b[1]), unix.Errno(binary.LittleEndian.Uint32(b[2:]))}
		case n == 5 && b[0] == guest.BoxEnded:
			e.status = unix.WaitStatus(binary.LittleEndian.Uint32(b[1:]))
			return nil
		default:
			return fmt.Errorf("the supervisor of a box breaks its protocol: %q", b[:n])
		}
	}
}

// endPython waits for the interpreter, and then takes down what it left behind.
func (s *cellSlot) endPython(e *ended) error {
	var lost error
	select {
	case e.status = <-s.job.ended:
		if s.conn.ended() { // the supervisor was killed, and took the interpreter along
			lost = errGuest
		}
	case <-s.job.zygoteGone():
		lost = errGuest
	case <-s.overdue:
		lost = fmt.Errorf("%w: the zygote did not say how its process ended", errGuest)
	}
	return errors.Join(lost, s.programDead())
}

// dead waits until nothing of the box is left.
func (s *cellSlot) dead() error {
	return deathPatience.with(s.group.Usage).wait(s.sup)
}

// Close implements runtime.Slot: it kills at once and cleans in the background.
func (s *cellSlot) Close() {
	if s.state.Swap(slotClosed) == slotClosed {
		return
	}
	if s.lease != nil && s.sup != nil {
		_ = s.killProgram()
	}
	if !s.cell.rt.spawn(s.release) {
		s.release()
	}
}

// release gives back what the slot consists of, when nothing in it runs.
func (s *cellSlot) release() {
	cells := s.cell.rt.cells
	ctx := context.WithoutCancel(s.cell.rt.ctx)
	clean := true
	s.endSpares()
	<-s.family.end()
	if s.sup != nil {
		_ = s.sup.kill()
		if err := s.dead(); err != nil {
			slog.ErrorContext(ctx, "a box does not die; the next sweep will remove it", "error", err)
			clean = false
		}
		s.sup.close()
	}
	// Whoever watches what ran looks at its group until then. The next job's files of it are
	// others, of the same names.
	s.inRun.Lock()
	defer s.inRun.Unlock()
	if s.conn != nil {
		s.conn.close()
	}
	if s.job != nil {
		s.job.close()
	}
	if s.scratch != nil {
		_ = s.scratch.close()
	}
	if s.user != 0 && clean {
		s.cell.users.giveBack(s.user)
	}
	if s.lease != nil && clean {
		s.lease.giveBack(ctx)
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

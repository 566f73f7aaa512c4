package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
	"github.com/assay-run/assay/pkg/runtime/cores"
	"github.com/assay-run/assay/pkg/runtime/disk"
	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// cleanTime limits the destruction of a slot, in the background.
const cleanTime = 30 * time.Second

// slot is a running container whose guest waits for one attempt.
type slot struct {
	sandbox.Place
	of        *image.Image
	level     *level
	shape     shape
	rt        *Runtime
	dir       string // on the host
	container *engine.Container
	link      *sandbox.Link
	gate      *sandbox.Gate // of the running program
	python    *interpreter  // the waiting interpreter; nil: none
	pid       int           // on the host, of the running program
	life      sandbox.Life
	release   func() // releases its image; nil: none held

	disk *disk.Disk // of a machine
	conn net.Conn   // to the server in a machine
	seat *cores.Seat
}

// The labels of a container about its attempt.
const (
	labelJob      = "assay.dev/job"
	labelLease    = "assay.dev/lease"
	labelDeadline = "assay.dev/deadline" // RFC 3339
)

// shape is the part of a job's policy that its container has from the start.
type shape struct {
	sandbox.Layout
	network policy.NetworkMode // matters if another runtime runs jobs with a proxy
	cpu     float64            // with memory and the rest, for a sandbox with its own kernel
	memory  job.Size
}

// defaultShape is the shape of warm slots.
var defaultShape = shape{Layout: sandbox.DefaultLayout, network: policy.NetworkNone, cpu: policy.Default().CPU, memory: policy.Default().Memory}

func shapeOf(p *policy.Policy) shape {
	return shape{sandbox.LayoutOf(p), p.Network.Mode, p.CPU, p.Memory}
}

// fits reports whether a container of shape s can run a job that needs want.
func (l *level) fits(s, want shape) bool {
	return s.Layout.Equal(want.Layout) && l.through(s.network) == l.through(want.network) &&
		(!l.foreign || sandbox.CoresOf(s.cpu) == sandbox.CoresOf(want.cpu) && s.memory == want.memory)
}

// newSlot creates a slot without a job. The job's limits are set when it takes the slot.
func (r *Runtime) newSlot(ctx context.Context, lv *level, img *image.Image, want shape) (_ *slot, err error) {
	release, err := r.images.Hold(img)
	if err != nil {
		return nil, err
	}
	token, name, uid := r.another()
	s := &slot{rt: r, release: release, level: lv, shape: want, of: img, Place: sandbox.Place{Image: img.SandboxImage(), Layout: want.Layout, Foreign: lv.foreign, Null: os.DevNull}, dir: filepath.Join(r.dir, "slots", token)}
	defer func() {
		if err != nil {
			s.Close()
			if context.Cause(ctx) == nil {
				err = img.Trouble(err)
			}
		}
	}()
	box, err := s.lay(uid)
	if err != nil {
		return nil, fmt.Errorf("prepare a slot: %w", err)
	}
	box.Cgroup = r.cgroup(name)
	group := box.Cgroup + "-job"
	if lv.foreign { // the container's own, because the whole sandbox is one host process
		group = box.Cgroup
	}
	if s.Group, err = r.cgroups.Create(group); err != nil {
		return nil, err
	}
	if lv.foreign { // its kernel reads its resources at the start
		limits := cgroup.Limits{Memory: int64(max(want.memory, sandbox.ForeignLeast)), CPU: want.cpu, Processes: sandbox.ForeignPids}
		if err := s.Group.Limit(limits); err != nil {
			return nil, err
		}
	}
	l, err := sandbox.Listen("unix", filepath.Join(s.Scratch.Dir, "slot"), sandbox.SocketName, uid)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	s.container, err = lv.through(want.network).Create(ctx, name, box.OCI())
	if err != nil {
		return nil, err
	}
	if !lv.foreign {
		if err := r.limitWatches(ctx, s.container.Proc.PID); err != nil {
			return nil, err
		}
	}
	if err := s.container.Start(ctx); err != nil {
		return nil, err
	}
	if s.link, err = sandbox.Accept(ctx, l, s.container.Proc); err != nil {
		return nil, err
	}
	// Remove the socket from view; the program has a different inode.
	return s, os.Remove(filepath.Join(s.Scratch.Dir, "slot", sandbox.SocketName))
}

// lay creates the slot's directories and returns the specification of its container.
func (s *slot) lay(uid int) (*engine.Spec, error) {
	// Other users of the host cannot enter: the job's files are below.
	if err := errors.Join(os.Mkdir(s.dir, 0o700), os.Chown(s.dir, uid, uid)); err != nil {
		return nil, err
	}
	def := policy.Default()
	over, err := s.rt.images.Overlays(s.of, s.Layout)
	if err != nil {
		return nil, err
	}
	s.Scratch, err = sandbox.NewScratch(filepath.Join(s.dir, "scratch"), uid, def.Disk, def.Files, s.Layout, over)
	if err != nil {
		return nil, err
	}
	if err := s.Scratch.Mkdir(filepath.Join(s.Scratch.Dir, "slot"), 0, 0o700); err != nil {
		return nil, err
	}
	box := &engine.Spec{
		Args: []string{sandbox.GuestPath, "task", sandbox.SlotDir + "/" + sandbox.SocketName},
		UID:  uid, Caps: engine.GuestCaps, Memory: 64 << 20, Pids: 64, Share: s.rt.share, Limits: engine.Limits(s.rt.share),
	}
	extra := s.Layout.Extra()
	if s.Foreign { // the engine creates its /dev, except for our mounts
		extra = append(extra, "/dev/shm")
	}
	if s.Layout.Equal(sandbox.DefaultLayout) && (!s.Foreign || hasShm(s.of.Rootfs)) {
		box.Rootfs, err = s.rt.images.OwnRoot(filepath.Join(s.dir, "rootfs"), s.of.Rootfs)
	} else {
		box.Rootfs, err = image.ExtraMountpoints(s.dir, s.of.Rootfs, extra)
	}
	if err != nil {
		return nil, err
	}
	guestFiles, err := overlay.View(filepath.Join(s.dir, "guest"), []string{overlay.Escape(filepath.Join(s.rt.dir, "guest"))})
	if err != nil {
		return nil, err
	}
	for _, w := range s.Scratch.Dirs {
		var options []string
		if w.ReadOnly {
			options = []string{"ro"}
		}
		box.Mounts = append(box.Mounts, engine.Bind(w.Host, w.Path, options...))
	}
	if s.Foreign { // its kernel decides
		box.Memory, box.Pids, box.CPU = int64(s.shape.memory)+sandbox.ForeignMemory, sandbox.ForeignPids, s.shape.cpu
		// runsc mounts a writable /tmp unless /tmp has a mount or an entry
		if !slices.ContainsFunc(slices.Concat(s.Layout.Write, s.Layout.Read), inTmp) {
			empty := filepath.Join(s.dir, "empty")
			if err := os.Mkdir(empty, 0o755); err != nil {
				return nil, err
			}
			box.Mounts = append(box.Mounts, engine.Bind(empty, "/tmp", "ro"))
		}
	} else {
		if err := engine.LayDevices(filepath.Join(s.dir, "dev")); err != nil {
			return nil, err
		}
		box.Devices, s.Null = filepath.Join(s.dir, "dev"), filepath.Join(s.dir, "dev", "null")
		cpus, memory := s.Scratch.View()
		box.Mounts = append(box.Mounts, engine.Bind(cpus, guest.CPUOnline, "ro"), engine.Bind(memory, guest.MemInfo, "ro"))
	}
	box.Mounts = append(box.Mounts,
		engine.Bind(guestFiles, sandbox.GuestDir, "ro"),
		engine.Bind(filepath.Join(s.Scratch.Dir, "slot"), sandbox.SlotDir))
	return box, nil
}

// inTmp reports whether a path of a layout is /tmp or lies below it.
func inTmp(at string) bool { return at == "/tmp" || strings.HasPrefix(at, "/tmp/") }

// hasShm reports whether an image has /dev/shm, our only directory that some images lack.
func hasShm(rootfs string) bool {
	info, err := os.Lstat(filepath.Join(rootfs, "dev/shm"))
	return err == nil && info.IsDir()
}

// alive reports whether the guest runs, and its interpreter if it had one.
func (s *slot) alive() bool {
	select {
	case <-s.link.Gone:
		return false
	default:
		return s.python == nil || !s.python.conn.IsClosed()
	}
}

// Run implements runtime.Slot.
func (s *slot) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	return s.run(ctx, a, false)
}

// Start implements runtime.Slot.
func (s *slot) Start(ctx context.Context, a runtime.Attempt) (runtime.Process, error) {
	return sandbox.Start(func(stream *sandbox.Stream) (*runtime.Report, error) {
		return s.attempt(ctx, &sandbox.Attempt{Attempt: a, Stream: stream})
	})
}

// run is Run. trusted means that the operator set the policy's allow-list.
func (s *slot) run(ctx context.Context, a runtime.Attempt, trusted bool) (*runtime.Report, error) {
	return s.attempt(ctx, &sandbox.Attempt{Attempt: a, Trusted: trusted})
}

// attempt runs a in s, or in a slot of the required shape.
func (s *slot) attempt(ctx context.Context, a *sandbox.Attempt) (*runtime.Report, error) {
	if canceled, err := s.life.Take(ctx, a); canceled != nil || err != nil {
		return canceled, err
	}
	where := s
	if want := shapeOf(&a.Plan.Policy); !s.level.fits(s.shape, want) {
		other, err := s.replace(ctx, want)
		if err != nil {
			return sandbox.Canceled(ctx, a, err)
		}
		defer other.Close()
		where = other
	}
	where.mark(a.Attempt)
	spent, err := where.spent()
	if err != nil {
		return nil, err
	}
	a.Spent, a.Place, a.Box, a.Network = spent, &where.Place, where, s.rt.network
	return a.Run(ctx)
}

// replace creates a slot of another shape than warm ones. The error is a *job.FieldError if the
// image cannot have the layout.
func (s *slot) replace(ctx context.Context, want shape) (*slot, error) {
	if err := want.Check(); err != nil {
		return nil, err
	}
	if err := want.CheckImage(s.of.Rootfs); err != nil {
		return nil, err
	}
	other, err := s.rt.makeSlot(ctx, s.level, s.of, want)
	return other, want.Refuse(err)
}

// mark labels the container with the attempt, in the background. Labels are for people; the sweep
// does not depend on them.
func (s *slot) mark(a runtime.Attempt) {
	labels := map[string]string{
		labelJob: string(a.Job), labelLease: strconv.FormatInt(int64(a.Lease), 10),
		labelDeadline: a.Deadline.UTC().Format(time.RFC3339),
	}
	s.rt.background.Spawn(func() {
		ctx, cancel := context.WithTimeout(s.rt.background.Context(), cleanTime)
		defer cancel()
		if err := s.container.Label(ctx, labels); err != nil && !s.life.Closed() {
			slog.WarnContext(ctx, "container not labeled", "container", s.container.ID, "error", err)
		}
	})
}

// Init implements sandbox.Box.
func (s *slot) Init() *process.Process { return s.container.Proc }

// Kill implements sandbox.Box.
func (s *slot) Kill() error { return errors.Join(s.container.Kill(), s.Group.Hasten()) }

// Close implements runtime.Slot: it kills at once and cleans up in the background.
func (s *slot) Close() {
	if !s.life.Close() {
		return
	}
	if s.container != nil {
		_ = s.container.Kill() // destroy retries and reports errors
	}
	s.rt.clean(s)
}

// destroy removes all resources of the slot. It may be repeated after a failure.
func (s *slot) destroy(ctx context.Context) error {
	if s.python != nil {
		s.python.conn.Close()
	}
	if s.link != nil {
		s.link.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	var errs []error
	if s.container != nil {
		errs = append(errs, s.container.Destroy(ctx))
	}
	if s.Group != nil {
		errs = append(errs, s.Group.Remove(ctx))
	}
	if s.Scratch != nil {
		errs = append(errs, s.Scratch.Close())
	}
	errs = append(errs, removeSlotDir(s.dir))
	if s.disk != nil {
		errs = append(errs, s.disk.Close())
	}
	if s.seat != nil {
		s.seat.Leave()
		s.seat = nil
	}
	err := errors.Join(errs...)
	if err == nil && s.release != nil { // otherwise the remaining processes would lose their files
		s.release()
	}
	return err
}

// removeSlotDir unmounts the content of the slot's directory and removes it. It never descends into
// a mount.
func removeSlotDir(dir string) error {
	return errors.Join(overlay.Unmount(dir, "rootfs", "guest", "dev", "scratch"), os.RemoveAll(dir))
}

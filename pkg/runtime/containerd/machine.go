package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// machine is a container whose process 1 serves an agent's programs.
type machine struct{ *slot }

var _ runtime.Machines = (*Runtime)(nil)

// machineMemory is the memory of process 1 in a machine, in addition to the policy's.
const machineMemory = 16 << 20

// Machine implements runtime.Machines.
func (r *Runtime) Machine(ctx context.Context, spec runtime.MachineSpec) (runtime.Machine, error) {
	p := &spec.Plan.Policy
	switch {
	case p.Isolation != policy.Task && p.Isolation != policy.GVisor:
		return nil, job.Invalid("policy.isolation", "%s has no sandboxes for agents yet: choose %s or %s", p.Isolation, policy.Task, policy.GVisor)
	case r.levels[p.Isolation] == nil:
		return nil, job.Invalid("policy.isolation", "%s is not available on this worker", p.Isolation)
	case p.Network.Mode != policy.NetworkNone:
		return nil, job.Invalid("policy.network.mode", "sandboxes for agents have no network yet: choose %s", policy.NetworkNone)
	case r.noDisks != nil:
		return nil, job.Invalid("policy.disk", "this worker has no disks for sandboxes: %v", r.noDisks)
	}
	img, release, err := r.find(ctx, runtime.Key{Image: spec.Image, Isolation: p.Isolation})
	if err != nil {
		return nil, err
	}
	defer release() // the machine holds it
	if !r.background.Enter() {
		return nil, background.ErrClosed
	}
	defer r.background.Leave()
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	defer context.AfterFunc(r.background.Context(), cancel)()
	select {
	case r.parallel <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to make a machine: %w", context.Cause(ctx))
	}
	defer func() { <-r.parallel }()
	m, err := r.newMachine(ctx, img, p)
	if err != nil {
		return nil, err
	}
	if !r.register(m.slot) {
		m.Close()
		return nil, background.ErrClosed
	}
	m.mark(runtime.Attempt{Job: spec.ID})
	return m, nil
}

// newMachine makes a machine.
func (r *Runtime) newMachine(ctx context.Context, img *image.Image, p *policy.Policy) (_ *machine, err error) {
	release, err := r.images.Hold(img)
	if err != nil {
		return nil, err
	}
	token, name, uid := r.another()
	m := &machine{&slot{rt: r, release: release, level: r.levels[p.Isolation], of: img, dir: filepath.Join(r.dir, "slots", token)}}
	m.Image, m.Foreign = img.SandboxImage(), m.level.foreign
	defer func() {
		if err != nil {
			m.Close()
			err = fmt.Errorf("make a machine: %w", err)
		}
	}()
	box, err := m.lay(ctx, uid, p)
	if err != nil {
		return nil, err
	}
	box.Cgroup = r.cgroup(name)
	if m.Group, err = r.cgroups.Create(box.Cgroup); err != nil {
		return nil, err
	}
	// Process 1 and its threads are in the group, too.
	limits := cgroup.Limits{Memory: int64(p.Memory) + machineMemory, CPU: p.CPU, Processes: int64(p.Processes) + machineThreads}
	if m.Foreign {
		limits.Memory, limits.Processes = int64(p.Memory)+sandbox.ForeignMemory, sandbox.ForeignPids
	}
	box.Memory, box.Pids, box.CPU = limits.Memory, limits.Processes, limits.CPU
	if err := m.Group.Limit(limits); err != nil {
		return nil, err
	}
	listener, err := sandbox.Listen("unix", filepath.Join(m.dir, "slot"), sandbox.SocketName, uid)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if m.container, err = m.level.engine.Create(ctx, name, box.OCI()); err != nil {
		return nil, err
	}
	if !m.Foreign {
		if err := r.limitWatches(ctx, m.container.Proc.PID); err != nil {
			return nil, err
		}
		if m.seat, err = sandbox.Seat(m.container.Proc.PID, p.CPU); err != nil {
			return nil, err
		}
	}
	if err := m.container.Start(ctx); err != nil {
		return nil, err
	}
	if m.conn, err = sandbox.AcceptConn(ctx, listener, m.container.Proc); err != nil {
		return nil, err
	}
	return m, os.Remove(filepath.Join(m.dir, "slot", sandbox.SocketName))
}

// machineThreads is how many threads process 1 may have.
const machineThreads = 16

// lay creates the disk and the directories of a machine, and returns the specification of its
// container.
func (m *machine) lay(ctx context.Context, uid int, p *policy.Policy) (_ *engine.Spec, err error) {
	below := func(name string) string { return filepath.Join(m.dir, name) }
	if err := errors.Join(os.Mkdir(m.dir, 0o700), os.Chown(m.dir, uid, uid)); err != nil {
		return nil, err
	}
	for _, name := range []string{"slot", "view", "rootfs"} {
		if err := os.Mkdir(below(name), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.Chown(below("slot"), uid, uid); err != nil {
		return nil, err
	}
	if m.disk, err = m.rt.disks.Create(ctx, int64(p.Disk), p.Files); err != nil {
		return nil, err
	}
	if err := m.rt.images.WritableRoot(m.of, below("rootfs"), m.disk.Dir, uid, below("layers")); err != nil {
		return nil, err
	}
	guestFiles, err := overlay.View(below("guest"), []string{overlay.Escape(filepath.Join(m.rt.dir, "guest"))})
	if err != nil {
		return nil, err
	}
	files := uint64(p.OpenFiles)
	box := &engine.Spec{
		Rootfs: below("rootfs"), Args: []string{sandbox.GuestPath, "machine", sandbox.SlotDir + "/" + sandbox.SocketName},
		UID: uid, Caps: append([]string{"CAP_NET_ADMIN"}, engine.MachineCaps...), Share: m.rt.share, Machine: true, Env: []string{"GOMAXPROCS=1", "GOGC=50"},
		Limits: append(engine.Limits(m.rt.share), specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Hard: files, Soft: files}),
		Mounts: []specs.Mount{
			{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", int64(p.Memory)/2)}},
			engine.Bind(guestFiles, sandbox.GuestDir, "ro"),
			engine.Bind(below("slot"), sandbox.SlotDir),
		},
	}
	if m.Foreign { // its kernel has devices, filters and views of its own
		return box, nil
	}
	if err := engine.LayDevices(below("dev")); err != nil {
		return nil, err
	}
	if err := os.Chmod(below("dev/shm"), 0o777|os.ModeSticky); err != nil { // runc gives it to the mount
		return nil, err
	}
	if err := sandbox.WriteView(below("view"), sandbox.CoresOf(p.CPU), p.Memory); err != nil {
		return nil, err
	}
	box.Devices, box.Seccomp = below("dev"), m.rt.machineFilter
	box.Mounts = append(box.Mounts, engine.Bind(below("view/"+guest.ViewCPUs), guest.CPUOnline, "ro"), engine.Bind(below("view/"+guest.ViewMemory), guest.MemInfo, "ro"))
	return box, nil
}

// Conn implements runtime.Machine.
func (m *machine) Conn() net.Conn { return m.conn }

// ImageConfig implements runtime.Machine.
func (m *machine) ImageConfig() runtime.ImageConfig {
	return runtime.ImageConfig{Digest: m.Image.Digest, Env: m.Image.Env, Dir: m.Image.Dir}
}

// Usage implements runtime.Machine.
func (m *machine) Usage() (runtime.MachineUsage, error) {
	u, err := m.Group.Usage()
	if err != nil {
		return runtime.MachineUsage{}, err
	}
	used, err := m.disk.Used()
	return runtime.MachineUsage{
		CPU: u.CPU, MemoryPeak: u.MemoryPeak, ProcessesPeak: u.ProcessesPeak, OOMKills: u.OOMKills, ForksRefused: u.ForksRefused, Disk: used,
	}, err
}

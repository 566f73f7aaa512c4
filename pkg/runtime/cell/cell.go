package cell

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
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
	"github.com/assay-run/assay/pkg/runtime/packet"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// cell is a container for many jobs of one tenant and image, each in its own namespaces: see
// package internal/guest, cell.go.
type cell struct {
	cells     *Cells
	image     *image.Image
	uid       int // host uid of its root; its guest is uid+sandbox.ProgramUID, and each job has a uid above
	dir       string
	roots     struct{ jobs, launcher string }
	container *engine.Container
	release   func() // releases its image
	listener  *net.UnixListener
	born      time.Time
	ready     chan struct{} // closed when the launcher has connected
	gone      chan struct{} // closed when the launcher has ended
	tasks     sync.WaitGroup

	mu       sync.Mutex
	conns    map[*packet.Conn]bool // nil: closed
	launcher *packet.Conn
	zygotes  map[byte]*zygotes // by kind
	slots    int               // that exist
	made     int               // ever created
	used     time.Time
	retired  bool // creates no more slots
	nets     networks
	users    users
}

// hostUID returns the user of a cell's guest, in the container and on the host. The ids are equal,
// so that a job's uid map shows an unprivileged user.
func (c *cell) hostUID() int { return c.uid + sandbox.ProgramUID }

// newCell starts a container for img and waits for its launcher.
func (cs *Cells) newCell(ctx context.Context, img *image.Image) (_ *cell, err error) {
	release, err := cs.cfg.Images.Hold(img)
	if err != nil {
		return nil, err
	}
	token, name, uid := cs.cfg.Another()
	c := &cell{
		cells: cs, release: release, image: img, uid: uid, dir: filepath.Join(cs.cfg.Dir, "cells", token), born: time.Now(),
		ready: make(chan struct{}), gone: make(chan struct{}), zygotes: map[byte]*zygotes{},
		conns: map[*packet.Conn]bool{}, used: time.Now(),
	}
	defer func() {
		if err != nil {
			c.destroy(context.WithoutCancel(ctx))
		}
	}()
	if err := os.Mkdir(c.dir, 0o711); err != nil {
		return nil, err
	}
	if err := c.layRoots(); err != nil {
		return nil, err
	}
	sock := filepath.Join(c.dir, "slot")
	if err := errors.Join(os.Mkdir(sock, 0o700), os.Chown(sock, c.hostUID(), c.hostUID())); err != nil {
		return nil, err
	}
	if c.listener, err = sandbox.Listen("unixpacket", sock, sandbox.SocketName, c.hostUID()); err != nil {
		return nil, err
	}
	c.tasks.Go(func() { c.accept(filepath.Join(sock, sandbox.SocketName)) })
	if c.container, err = cs.cfg.Engine.Create(ctx, name, c.spec(sock, cs.cfg.Group(name))); err != nil {
		return nil, err
	}
	if err := cs.cfg.LimitWatches(ctx, c.container.Proc.PID); err != nil {
		return nil, err
	}
	// Its children inherit its limits, and may only lower them.
	if err := engine.RaiseOpenFiles(c.container.Proc.PID); err != nil {
		return nil, err
	}
	if err := engine.RaiseStack(c.container.Proc.PID); err != nil {
		return nil, err
	}
	if err := c.container.Start(ctx); err != nil {
		return nil, err
	}
	return c, c.await(ctx)
}

// layRoots mounts file systems that are separate for each cell: the root of its jobs, the root of
// its launcher and zygotes, which programs reach through /proc/self/exe, and the devices.
func (c *cell) layRoots() (err error) {
	if err := engine.LayDevices(filepath.Join(c.dir, "dev")); err != nil {
		return err
	}
	m := c.cells.cfg.Images
	if c.roots.jobs, err = m.OwnRoot(filepath.Join(c.dir, "root"), c.image.Rootfs); err != nil {
		return err
	}
	switch own := c.image.Own; own {
	case nil:
		c.roots.launcher = filepath.Join(c.cells.cfg.Dir, "bare")
	case c.image: // the same inodes, by which a dynamic linker recognizes libraries
		c.roots.launcher = c.roots.jobs
	default:
		c.roots.launcher, err = m.OwnRoot(filepath.Join(c.dir, "own"), own.Rootfs)
	}
	return err
}

// await waits for the launcher, or for the container to end without it.
func (c *cell) await(ctx context.Context) error {
	ended := make(chan struct{})
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	c.tasks.Go(func() {
		if c.container.Proc.Wait(watch) == nil {
			close(ended)
		}
	})
	select {
	case <-c.ready:
		return nil
	case <-ended:
		return errors.New("the guest of a cell ended at once")
	case <-ctx.Done():
		return fmt.Errorf("wait for the guest of a cell: %w", context.Cause(ctx))
	}
}

// Memory and processes of a cell in addition to its jobs'.
const (
	cellMemory = 1 << 30
	cellPids   = 8192
)

// spec returns the OCI configuration of the container.
func (c *cell) spec(sock, group string) *specs.Spec {
	// The capabilities to enter a namespace, to bring lo up and to become a box's user, in its own
	// user namespace only. Entering another user's mount namespace requires CAP_SYS_CHROOT; the
	// filter forbids chroot itself.
	caps := []string{"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_NET_ADMIN", "CAP_SYS_CHROOT", "CAP_SETUID", "CAP_SETGID"}
	var env []string
	if own := c.image.Own; own != nil {
		env = own.Env
	}
	box := &engine.Spec{
		Rootfs: c.roots.launcher, Args: []string{sandbox.GuestPath, "cell", sandbox.SlotDir + "/" + sandbox.SocketName, c.cells.cfg.Share.String()},
		UID: c.uid, Cgroup: group, Caps: caps, Seccomp: c.cells.seccomp, Memory: cellMemory, Pids: cellPids,
	}
	s := box.OCI()
	me := uint32(c.hostUID())
	ids := []specs.LinuxIDMapping{
		{ContainerID: 0, HostID: uint32(c.uid), Size: 1}, // runc prepares the root file system as this user
		{ContainerID: me, HostID: me, Size: 1 + cellUsers},
	}
	s.Linux.UIDMappings, s.Linux.GIDMappings = ids, ids
	s.Process.User.UID, s.Process.User.GID = me, me
	s.Process.Env = append([]string{"GOMAXPROCS=1"}, env...)
	s.Process.Capabilities.Inheritable, s.Process.Capabilities.Ambient = caps, caps
	// An unprivileged process may mount /proc or /sys only if the existing one is completely visible.
	// Boxes have their own masks.
	s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil
	s.Mounts = []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/dev", Type: "bind", Source: filepath.Join(c.dir, "dev"), Options: []string{"bind", "ro", "nosuid", "noexec"}},
		engine.Bind(filepath.Join(c.cells.cfg.Dir, "guest"), sandbox.GuestDir, "ro"),
		engine.Bind(c.roots.jobs, sandbox.GuestDir+"/root", "ro"),
		engine.Bind(sock, sandbox.SlotDir),
	}
	return s
}

// hold registers a connection to close at the end of the cell.
func (c *cell) hold(p *packet.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		return false
	}
	c.conns[p] = true
	return true
}

// end records that the launcher has ended.
func (c *cell) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	close(c.gone)
	for _, zs := range c.zygotes {
		zs.settle()
	}
}

// alive reports whether slots of the cell may still be used.
func (c *cell) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// fresh reports whether the cell may take more jobs.
func (c *cell) fresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.retired && c.alive()
}

// zygoteTime is how long an interpreter may take to start and import.
const zygoteTime = 20 * time.Second

// zygotes are the zygotes of one kind.
type zygotes struct {
	live  []*zygote
	known chan struct{} // closed when it is known whether there are any
	turn  int
}

// settle ends the wait for zygotes. The caller holds the lock.
func (zs *zygotes) settle() {
	select {
	case <-zs.known:
	default:
		close(zs.known)
	}
}

// interpreter returns a zygote of the cell, or nil if its image cannot or may not have one.
func (c *cell) interpreter(ctx context.Context, kind byte) (*zygote, error) {
	zs, err := c.zygotesOf(kind)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, zygoteTime)
	defer cancel()
	select {
	case <-zs.known:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a zygote: %w", context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(zs.live) == 0 {
		return nil, nil
	}
	zs.turn++
	return zs.live[zs.turn%len(zs.live)], nil
}

// zygotesOf returns the zygotes of a kind, which are started on first use.
func (c *cell) zygotesOf(kind byte) (*zygotes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if zs := c.zygotes[kind]; zs != nil {
		return zs, nil
	}
	own := c.image.Own
	for range c.cells.cfg.Zygotes {
		if own == nil {
			break
		}
		root := guest.RootOwn
		if own != c.image {
			root = guest.RootOther
		}
		if err := c.startZygote(kind, root); err != nil {
			return nil, fmt.Errorf("start a zygote: %w", err)
		}
	}
	zs := &zygotes{known: make(chan struct{})}
	if own == nil || !c.alive() {
		zs.settle()
	}
	c.zygotes[kind] = zs
	return zs, nil
}

// zygoteConnected registers a waiting zygote.
func (c *cell) zygoteConnected(z *zygote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	zs := c.zygotes[z.kind]
	zs.live = append(zs.live, z)
	if len(zs.live) == c.cells.cfg.Zygotes {
		zs.settle()
	}
}

// zygoteGone retires a cell that lost a zygote: the next cell has a new one.
func (c *cell) zygoteGone(z *zygote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	zs := c.zygotes[z.kind]
	zs.live = slices.DeleteFunc(zs.live, func(have *zygote) bool { return have == z })
}

// noZygote handles a report that a zygote has ended or failed to start.
func (c *cell) noZygote(kind byte, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	zs := c.zygotes[kind]
	if zs == nil {
		return
	}
	first := false
	select {
	case <-zs.known:
	default:
		first = len(zs.live) == 0
	}
	switch {
	case c.conns == nil: // the worker ended it
	case first:
		slog.Warn("no zygote in this image; every cell job starts a new Python", "image", c.image.Name, "reason", why)
	default:
		slog.Warn("zygote of a cell ended", "image", c.image.Name, "reason", why)
	}
	zs.settle()
}

// destroy removes the cell and everything in it.
func (c *cell) destroy(ctx context.Context) {
	if c.listener != nil {
		_ = c.listener.Close()
	}
	c.mu.Lock()
	c.retired = true
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	c.nets.close()
	for p := range conns {
		p.Close()
	}
	whole := true
	if c.container != nil {
		if err := c.container.Destroy(ctx); err != nil {
			whole = false
			slog.ErrorContext(ctx, "cell not removed; the next sweep will retry", "cell", c.container.ID, "error", err)
		}
	}
	c.tasks.Wait()
	if err := errors.Join(overlay.Unmount(c.dir, "root", "own", "dev"), os.RemoveAll(c.dir)); err != nil {
		whole = false
		slog.ErrorContext(ctx, "directory of a cell not removed", "error", err)
	}
	if whole { // otherwise the remaining processes would lose their files
		c.release()
	}
}

// scratchDir returns the mount point for a box's scratch that is created at a directory.
func (c *cell) scratchDir(user int) string {
	return filepath.Join(c.dir, "scratch-"+strconv.Itoa(user))
}

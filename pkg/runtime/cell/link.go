package cell

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/cgroup/lease"
	"github.com/assay-run/assay/pkg/runtime/packet"
	"github.com/assay-run/assay/pkg/runtime/process"
)

// accept accepts one connection on a cell's socket, from its launcher, the first process in the
// container. Before any other process exists, the socket is closed and its name removed. Zygotes
// get their connections from the launcher.
func (c *cell) accept(socket string) {
	conn, err := c.listener.AcceptUnix()
	err = errors.Join(err, os.Remove(socket), c.listener.Close())
	if conn == nil {
		return // closed
	}
	p, perr := packet.Of(conn)
	if err = errors.Join(err, perr); err != nil {
		slog.Error("launcher of a cell not served", "error", err)
		return
	}
	c.serve(p, guest.CellLauncher, func() { c.serveLauncher(p) })
}

// serve waits for the other end of p to send word, and then calls listen.
func (c *cell) serve(p *packet.Conn, word byte, listen func()) {
	defer p.Close()
	if !c.hold(p) {
		return
	}
	var b [2]byte
	if _, _, err := p.Receive(b[:]); err != nil || b[0] != word {
		return
	}
	listen()
}

// startZygote makes the launcher start a zygote with a connection. The caller holds the lock.
func (c *cell) startZygote(kind, root byte) error {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return err
	}
	err = c.launcher.Send([]byte{guest.CellZygote, kind, root}, theirs)
	_ = unix.Close(theirs)
	if err != nil {
		ours.Close()
		return err
	}
	c.tasks.Go(func() {
		c.serve(ours, guest.ZygoteHello, func() {
			gone := make(chan struct{})
			z := &zygote{kind: kind, conn: ours, waiting: map[uint64]chan unix.WaitStatus{}, gone: gone}
			c.zygoteConnected(z)
			z.serve()
			close(gone)
			c.zygoteGone(z)
		})
	})
	return nil
}

// serveLauncher reads the launcher's messages. The end of the launcher ends the cell.
func (c *cell) serveLauncher(p *packet.Conn) {
	c.mu.Lock()
	c.launcher = p
	c.mu.Unlock()
	close(c.ready)
	defer c.end()
	buf := make([]byte, guest.MaxMessage)
	for {
		n, _, err := p.Receive(buf)
		if err != nil || n < 2 || buf[0] != guest.CellNoZygote {
			return
		}
		c.noZygote(buf[1], string(buf[2:n]))
	}
}

// zygote is the worker's side of an interpreter that is forked for jobs.
type zygote struct {
	kind byte
	conn *packet.Conn
	gone <-chan struct{}

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan unix.WaitStatus
}

// serve distributes the reports of ended processes until the zygote is gone.
func (z *zygote) serve() {
	var b [32]byte
	for {
		n, _, err := z.conn.Receive(b[:])
		if err != nil || n != 13 || b[0] != guest.ZygoteEnded {
			return
		}
		id, status := binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint32(b[9:])
		z.mu.Lock()
		if ch := z.waiting[id]; ch != nil {
			ch <- unix.WaitStatus(status)
			delete(z.waiting, id)
		}
		z.mu.Unlock()
	}
}

// forked is a process that a zygote, or another forked process, forked into a box.
type forked struct {
	zygote *zygote // nil: forked by another process
	id     uint64
	pid    int          // on the host
	slot   *packet.Conn // until it becomes its job
	ended  chan unix.WaitStatus
}

// fork forks a process into the box of sup, its process 1. The process waits for its job in group.
func (z *zygote) fork(ctx context.Context, sup *process.Process, group *lease.Lease) (_ *forked, err error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	f := &forked{zygote: z, slot: ours, ended: make(chan unix.WaitStatus, 1)}
	z.mu.Lock()
	z.next++
	f.id = z.next
	z.waiting[f.id] = f.ended
	z.mu.Unlock()
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	err = z.conn.Send(binary.LittleEndian.AppendUint64([]byte{guest.ZygoteFork}, f.id), theirs, int(sup.FD.Fd()))
	_ = unix.Close(theirs)
	if err != nil {
		return nil, fmt.Errorf("ask the zygote: %w", err)
	}
	defer ours.BindContext(ctx)()
	if f.pid, err = ours.Expect(guest.BoxReady); err != nil {
		return nil, fmt.Errorf("fork the zygote: %w", err)
	}
	if err := group.Add(f.pid); err != nil {
		return nil, err
	}
	if err := ours.Send([]byte{guest.BoxEnter}); err != nil {
		return nil, fmt.Errorf("fork the zygote: %w", err)
	}
	if _, err := ours.Expect(guest.BoxWaiting); err != nil {
		return nil, fmt.Errorf("fork the zygote: %w", err)
	}
	return f, nil
}

// zygoteGone returns a channel that is closed when the process's end cannot be reported any more.
func (f *forked) zygoteGone() <-chan struct{} {
	if f.zygote == nil {
		return nil
	}
	return f.zygote.gone
}

// close drops the process, which ends by itself when its connection closes.
func (f *forked) close() {
	f.slot.Close()
	if f.zygote == nil {
		return
	}
	f.zygote.mu.Lock()
	delete(f.zygote.waiting, f.id)
	f.zygote.mu.Unlock()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/httpapi"
	"github.com/assay-run/assay/pkg/job"
)

// Bounds of what bodies take in memory. Below the first not even two of the largest would fit; above the second there is
// nothing to be had, for what is larger goes to the disk.
const (
	leastBodies = 128 * job.MiB
	mostBodies  = job.GiB
)

// requestMemory is the memory for bodies that stands for one request at once: 8,192 of them where bodies have 256Mi.
const requestMemory = 32 * job.KiB

// machine is what a process may use, as far as limits follow from it.
type machine struct {
	Memory job.Size // of its control group, or else of the host
	Alone  bool     // Memory is a limit of this process, and nothing else's
	Files  uint64   // that may be open at once
}

// thisMachine looks what this process may use. The limit of open files is the hard one, to which Go's runtime raises its own.
func thisMachine() (m machine, err error) {
	limit, err := memlimit.FromCgroup()
	if m.Alone = err == nil; !m.Alone {
		limit, err = memlimit.FromSystem()
	}
	if err != nil {
		return m, fmt.Errorf("find out how much memory there is: %w", err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return m, fmt.Errorf("find out how many files may be open: %w", err)
	}
	m.Memory, m.Files = job.Size(min(limit, 1<<62)), files.Cur
	return m, nil
}

// errFiles says that there are too few files to serve anybody.
var errFiles = errors.New("fewer than 256 files may be open at once; allow more (ulimit -n, LimitNOFILE=)")

// bears returns how much memory bodies take together as they were sent, and how many requests there are at once. Decoded,
// bodies may take twice as much again, so theirs is a quarter of a limit that is this process's own, and an eighth of a
// host that others use as well. Each request has a connection, and a quarter of the files is left to the disk, to
// PostgreSQL, NATS and the object store.
func (m machine) bears() (bodies job.Size, requests int, err error) {
	share := m.Memory / 8
	if m.Alone {
		share = m.Memory / 4
	}
	if m.Files < 256 {
		return 0, 0, errFiles
	}
	bodies = min(max(share, leastBodies), mostBodies)
	return bodies, int(min(uint64(bodies/requestMemory), m.Files-m.Files/4)), nil
}

// bear adds to l what follows from the machine, and says so in the log.
func bear(ctx context.Context, l *httpapi.Limits) error {
	m, err := thisMachine()
	if err != nil {
		return err
	}
	if l.Memory, l.Requests, err = m.bears(); err != nil {
		return err
	}
	slog.InfoContext(ctx, "what clients may use at once", "requests", l.Requests, "body_memory", l.Memory, "spool", l.Spool, "memory", m.Memory, "files", m.Files)
	return nil
}

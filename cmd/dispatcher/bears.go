package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
)

// Limits of the memory for bodies. Below the first, not even two of the largest fit. More than the
// second is useless, because larger bodies go to disk.
const (
	leastBodies = 128 * job.MiB
	mostBodies  = job.GiB
)

// requestMemory is the memory for bodies per concurrent request: 8,192 requests for 256Mi.
const requestMemory = 32 * job.KiB

// machine is the resources of this process, as far as limits depend on them.
type machine struct {
	Memory job.Size // of its control group, otherwise of the host
	Alone  bool     // Memory is a limit of this process alone
	Files  uint64   // that may be open at once
}

// thisMachine reads the resources of this process. The limit of open files is the hard one, to
// which Go's runtime raises the soft one.
func thisMachine() (m machine, err error) {
	limit, err := memlimit.FromCgroup()
	if m.Alone = err == nil; !m.Alone {
		limit, err = memlimit.FromSystem()
	}
	if err != nil {
		return m, fmt.Errorf("read the memory of this host: %w", err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return m, fmt.Errorf("find out how many files may be open: %w", err)
	}
	m.Memory, m.Files = job.Size(min(limit, 1<<62)), files.Cur
	return m, nil
}

// errFiles means that there are too few files to serve clients.
var errFiles = errors.New("fewer than 256 files may be open at once; allow more (ulimit -n, LimitNOFILE=)")

// bears returns the memory for encoded bodies and the number of concurrent requests. Decoded bodies
// may take twice as much again. So bodies get a quarter of this process's own limit, or an eighth
// of a shared host's memory. Each request has a connection. A quarter of the files is reserved for
// the disk, PostgreSQL, NATS and the object store.
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

// bear adds the machine's limits to l and logs them.
func bear(ctx context.Context, l *httpapi.Limits) error {
	m, err := thisMachine()
	if err != nil {
		return err
	}
	if l.Memory, l.Requests, err = m.bears(); err != nil {
		return err
	}
	slog.InfoContext(ctx, "request limits", "requests", l.Requests, "body_memory", l.Memory, "spool", l.Spool, "memory", m.Memory, "files", m.Files)
	return nil
}

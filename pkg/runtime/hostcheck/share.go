package hostcheck

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// The largest share of one job in host-wide kernel resources.
const (
	mostSignals   = 1024
	mostInstances = 16
	mostWatches   = 8192
	mostTerminals = 32
)

// ShareOf returns each job's share of kernel resources that are limited for the whole host, or for
// root, who creates all namespaces. Half of a resource is divided equally among this many jobs. So
// jobs cannot exhaust it for the host or each other. A share can be 0. root is the parent of /proc.
func ShareOf(root string, jobs int) guest.Share {
	jobs = max(jobs, 1)
	part := func(all, most int64) int64 { return max(min(all/2/int64(jobs), most), 0) }
	terminals := sysctl(root, "kernel/pty/max") - sysctl(root, "kernel/pty/reserve")
	s := guest.Share{
		Instances: part(sysctl(root, "fs/inotify/max_user_instances"), mostInstances),
		Watches:   part(sysctl(root, "fs/inotify/max_user_watches"), mostWatches),
		Terminals: max(part(terminals, mostTerminals), 1), // the mount option does not accept 0
		Signals:   mostSignals,
	}
	var signals unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &signals); err == nil && signals.Cur < mostSignals*2*uint64(jobs) {
		s.Signals = part(int64(signals.Cur), mostSignals)
	}
	return s
}

// sysctl returns a kernel parameter, or 0 if it cannot be read.
func sysctl(root, name string) int64 {
	data, err := os.ReadFile(filepath.Join(root, "proc/sys", name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n
}

// pidShare is the divisor for one job's share of process numbers: an eighth, under any policy.
const pidShare = 8

// MostProcesses returns how many processes one job may have on a host, or 0 if the host's limit is
// unknown.
func MostProcesses(root string) int { return int(sysctl(root, "kernel/pid_max") / pidShare) }

package hostcheck

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// Most that one job gets of what the kernel counts for all of them, however much
// there is.
const (
	mostSignals   = 1024
	mostInstances = 16
	mostWatches   = 8192
	mostTerminals = 32
)

// ShareOf returns what each of so many jobs gets of what the kernel counts for the
// whole host, or for root, who makes all namespaces: half of it is theirs, in equal
// parts. So no number of them leaves the host, or one another, without. A part can
// be 0; root is where to find /proc.
func ShareOf(root string, jobs int) guest.Share {
	jobs = max(jobs, 1)
	part := func(all, most int64) int64 { return max(min(all/2/int64(jobs), most), 0) }
	terminals := sysctl(root, "kernel/pty/max") - sysctl(root, "kernel/pty/reserve")
	s := guest.Share{
		Instances: part(sysctl(root, "fs/inotify/max_user_instances"), mostInstances),
		Watches:   part(sysctl(root, "fs/inotify/max_user_watches"), mostWatches),
		Terminals: max(part(terminals, mostTerminals), 1), // the mount option knows no 0
		Signals:   mostSignals,
	}
	var signals unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &signals); err == nil && signals.Cur < mostSignals*2*uint64(jobs) {
		s.Signals = part(int64(signals.Cur), mostSignals)
	}
	return s
}

// sysctl returns a number of the kernel, 0 if it cannot be read.
func sysctl(root, name string) int64 {
	data, err := os.ReadFile(filepath.Join(root, "proc/sys", name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n
}

// pidShare is the part of the numbers of processes that one job may use at most: an
// eighth, so that no job leaves others without, whatever its policy says.
const pidShare = 8

// MostProcesses returns how many processes one job may have on a host; 0 if the
// host does not say how many there can be.
func MostProcesses(root string) int { return int(sysctl(root, "kernel/pid_max") / pidShare) }

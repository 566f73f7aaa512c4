package hostcheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Privilege is something that a worker needs of whoever runs it, which a container may
// withhold. The same rows, with their reasons, are in docs/security.md.
type Privilege struct {
	Name   string
	Levels []policy.Isolation // that are not there without it
	Lacks  error              // nil: it is there
}

// every is the isolations that have a container of runc's.
var every = []policy.Isolation{policy.Cell, policy.Task, policy.GVisor, policy.VM}

// capabilities are those that a worker uses, by what it cannot do without them.
var capabilities = []struct {
	name   string
	bit    int
	levels []policy.Isolation
}{
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN, every},
	{"CAP_CHOWN", unix.CAP_CHOWN, every},
	{"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE, every},
	{"CAP_FOWNER", unix.CAP_FOWNER, every},
	{"CAP_SETUID", unix.CAP_SETUID, every},
	{"CAP_SETGID", unix.CAP_SETGID, every},
	{"CAP_SETPCAP", unix.CAP_SETPCAP, every},
	{"CAP_KILL", unix.CAP_KILL, every},
	{"CAP_MKNOD", unix.CAP_MKNOD, every},
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, every},
	{"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT, every},
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE, every},
}

// Privileges looks for each privilege that a worker needs. Those that it has are in the
// list, too.
func Privileges(cgroupRoot string) []Privilege {
	var out []Privilege
	have, err := effective()
	for _, c := range capabilities {
		p := Privilege{Name: c.name, Levels: c.levels, Lacks: err}
		if err == nil && have&(1<<c.bit) == 0 {
			p.Lacks = errors.New("not among the capabilities of this process")
		}
		out = append(out, p)
	}
	_, ids := NewIDs()
	return append(out,
		Privilege{"control groups to write", every, groupsWritable(cgroupRoot)},
		Privilege{"/proc without masks", every, unmasked("/proc/self/mountinfo")},
		Privilege{"ids for sandboxes", every, ids},
		Privilege{"limit of open files", nil, enoughOpenFiles(MostOpenFiles())})
}

// The highest limit of open files that a policy may ask for, and the capability,
// in the first user namespace, to give more than one has.
const (
	everOpenFiles  = 1 << 20
	capSysResource = 24
)

// MostOpenFiles is the highest limit that this process can give to programs: with
// the capability any that the kernel knows, else its own hard one, which its
// children start with.
func MostOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	most := int(min(limit.Max, everOpenFiles))
	if maySetResources() {
		most = max(most, int(min(sysctl("/", "fs/nr_open"), everOpenFiles)))
	}
	return most
}

// MostStack returns the highest stack limit that this process can give to programs; 0 is
// any limit that a policy may name.
func MostStack() job.Size {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &limit); err != nil || limit.Max >= uint64(policy.MaxStack) || maySetResources() {
		return 0
	}
	return job.Size(limit.Max)
}

// maySetResources reports whether this process may raise hard limits.
func maySetResources() bool {
	if ids, err := os.ReadFile("/proc/self/uid_map"); err != nil || !allIDs(string(ids)) {
		return false
	}
	have, err := effective()
	return err == nil && have&(1<<capSysResource) != 0
}

// allIDs says whether a uid_map is that of the first user namespace.
func allIDs(uidMap string) bool {
	return slices.Equal(strings.Fields(uidMap), []string{"0", "0", "4294967295"})
}

// enoughOpenFiles says which policies cannot be had.
func enoughOpenFiles(most int) error {
	if most >= everOpenFiles {
		return nil
	}
	return fmt.Errorf("it is %d: jobs that ask for more, by open_files, are refused here; give the container a hard limit of 1048576", most)
}

// effective returns the capabilities of this process.
func effective() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, errors.New("/proc/self/status does not name capabilities")
}

// groupsWritable says what keeps this process from making control groups.
func groupsWritable(root string) error {
	dir := root
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		dir = filepath.Join(root, "pids") // version 1: each controller is a tree of its own
	}
	probe, err := os.MkdirTemp(dir, "assay-probe-") // in pods, workers beside each other have one pid
	if err != nil {
		return fmt.Errorf("%w; mount the container's own control groups writable", err)
	}
	return os.Remove(probe)
}

// unmasked says what of /proc is hidden. The kernel lets a user namespace have a /proc
// of its own only where nothing of the one above is.
func unmasked(mountinfo string) error {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return err
	}
	var hidden []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], "/proc/") && fields[4] != "/proc/sys/fs/binfmt_misc" {
			hidden = append(hidden, fields[4])
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	return fmt.Errorf("hidden or read-only: %s; run the container with procMount: Unmasked, or privileged", strings.Join(slices.Compact(hidden), ", "))
}

// Withhold takes from a host what it has no privileges for, and says which are lacking.
func Withhold(h *policy.Host, privileges []Privilege) {
	for _, p := range privileges {
		if p.Lacks == nil || len(p.Levels) == 0 { // what only some policies ask for is for assay doctor
			continue
		}
		h.Missing = append(h.Missing, fmt.Sprintf("privilege %s: %v", p.Name, p.Lacks))
		h.Isolations = slices.DeleteFunc(h.Isolations, func(l policy.Isolation) bool { return slices.Contains(p.Levels, l) })
	}
}

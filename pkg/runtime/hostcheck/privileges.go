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

// Privilege is a right that a worker needs from its environment, and that a container may withhold.
// docs/operate/privileges.md has the same rows with reasons.
type Privilege struct {
	Name   string
	Levels []policy.Isolation // isolations that require it
	Lacks  error              // nil: available
}

// every lists the isolations with a container of runc.
var every = []policy.Isolation{policy.Cell, policy.Task, policy.GVisor, policy.VM}

// capabilities lists the capabilities of a worker and their purposes.
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

// Privileges checks each privilege that a worker needs. The result includes available ones.
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

// The highest limit of open files in a policy, and the capability, in the initial user namespace,
// to exceed one's own limit.
const (
	everOpenFiles  = 1 << 20
	capSysResource = 24
)

// MostOpenFiles returns the highest limit that this process can give to programs: the kernel's with
// the capability, otherwise its own hard limit, which its children inherit.
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

// MostStack returns the highest stack limit that this process can give to programs, or 0 for any
// limit in a policy.
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

// allIDs reports whether a uid_map is the initial user namespace's.
func allIDs(uidMap string) bool {
	return slices.Equal(strings.Fields(uidMap), []string{"0", "0", "4294967295"})
}

// enoughOpenFiles returns an error that describes the policies that cannot be met, or nil.
func enoughOpenFiles(most int) error {
	if most >= everOpenFiles {
		return nil
	}
	return fmt.Errorf("it is %d; jobs with a higher open_files are refused. Give the container a hard limit of 1048576", most)
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

// groupsWritable returns why this process cannot create control groups, or nil.
func groupsWritable(root string) error {
	dir := root
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		dir = filepath.Join(root, "pids") // version 1: each controller has its own tree
	}
	probe, err := os.MkdirTemp(dir, "assay-probe-") // in pods, several workers may have the same pid
	if err != nil {
		return fmt.Errorf("%w; mount the container's own control groups writable", err)
	}
	return os.Remove(probe)
}

// unmasked returns an error if parts of /proc are hidden. The kernel lets a user namespace mount
// /proc only if its parent's is completely visible.
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

// Withhold removes isolations from a host whose privileges are missing, and reports the missing
// ones.
func Withhold(h *policy.Host, privileges []Privilege) {
	for _, p := range privileges {
		if p.Lacks == nil || len(p.Levels) == 0 { // assay doctor reports privileges that only some policies need
			continue
		}
		h.Missing = append(h.Missing, fmt.Sprintf("privilege %s: %v", p.Name, p.Lacks))
		h.Isolations = slices.DeleteFunc(h.Isolations, func(l policy.Isolation) bool { return slices.Contains(p.Levels, l) })
	}
}

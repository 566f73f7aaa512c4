package engine

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// GuestCaps are the capabilities that a guest needs to start a program as another user, kill its
// remaining processes and bring up loopback. They are only valid in the sandbox's own namespaces.
var GuestCaps = []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_NET_ADMIN"}

// MachineCaps are the capabilities of root in a machine, over the users and files of its own namespaces: those with which
// packages are installed, users created and services started.
var MachineCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID",
	"CAP_SYS_CHROOT",
}

// Spec holds the differences between our containers. A zero field means none.
type Spec struct {
	Rootfs  string
	Devices string   // directory for its /dev; empty: the engine creates one
	Args    []string // of process 1
	UID     int      // host uid of its root
	Cgroup  string   // path of its control group
	Mounts  []specs.Mount
	Caps    []string
	Seccomp *specs.LinuxSeccomp
	Share   guest.Share
	Limits  []specs.POSIXRlimit // in addition to the common ones
	Memory  int64               // bytes; for process 1 and processes outside of a job's group
	Pids    int64
	CPU     float64 // cores; 0: all

	// Machine makes the root writable and lets programs gain privileges by setuid files.
	Machine bool
	Env     []string // of process 1; nil: for a guest that only starts one program
}

// OCI returns the configuration of a container.
func (s *Spec) OCI() *specs.Spec {
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(s.UID), Size: sandbox.IDs}}
	env := s.Env
	if env == nil {
		env = []string{"GOMAXPROCS=1", "GOGC=off"} // one thread suffices, and it ends before a garbage collection
	}
	umask := uint32(0o022)
	oom := 500 // kill sandboxes before any process of the host
	noSwap := s.Memory
	var cpu *specs.LinuxCPU
	if s.CPU > 0 {
		period, quota := uint64(100_000), int64(s.CPU*100_000)
		cpu = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: "assay",
		Root:     &specs.Root{Path: s.Rootfs, Readonly: !s.Machine},
		Process: &specs.Process{
			Args: s.Args,
			Cwd:  "/",
			Env:  env,
			User: specs.User{UID: 0, GID: 0, Umask: &umask},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: s.Caps, Effective: s.Caps, Permitted: s.Caps,
			},
			Rlimits: append([]specs.POSIXRlimit{
				{Type: "RLIMIT_CORE", Hard: 0, Soft: 0},
				{Type: "RLIMIT_MSGQUEUE", Hard: 0, Soft: 0},
			}, s.Limits...),
			NoNewPrivileges: !s.Machine,
			OOMScoreAdj:     &oom,
		},
		Mounts: append(s.baseMounts(), s.Mounts...),
		Linux: &specs.Linux{
			UIDMappings: ids,
			GIDMappings: ids,
			CgroupsPath: s.Cgroup,
			Resources: &specs.LinuxResources{
				Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
				Memory:  &specs.LinuxMemory{Limit: &s.Memory, Swap: &noSwap},
				Pids:    &specs.LinuxPids{Limit: &s.Pids},
				CPU:     cpu,
			},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.UserNamespace}, {Type: specs.PIDNamespace}, {Type: specs.MountNamespace},
				{Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.CgroupNamespace},
			},
			Seccomp: s.Seccomp,
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
				"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
				"/sys/devices/virtual/powercap", "/sys/firmware",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
}

func (s *Spec) baseMounts() []specs.Mount {
	devices := specs.Mount{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=64k"}}
	if s.Devices != "" { // instead of the host's, which runc would mount there
		devices = specs.Mount{Destination: "/dev", Type: "bind", Source: s.Devices, Options: []string{"bind", "ro", "nosuid", "noexec"}}
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		devices,
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", fmt.Sprintf("max=%d", s.Share.Terminals)}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
}

// Bind mounts a file or directory of the host. It repeats the flags of its mount, because a user
// namespace cannot remove them.
func Bind(source, target string, options ...string) specs.Mount {
	var st unix.Statfs_t
	if err := unix.Statfs(source, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		options = append(options, "noexec")
	}
	return specs.Mount{Destination: target, Type: "bind", Source: source,
		Options: append([]string{"bind", "nosuid", "nodev"}, options...)}
}

// Limits returns the limits of a process that creates no namespaces; its programs inherit them.
func Limits(share guest.Share) []specs.POSIXRlimit {
	signals := uint64(share.Signals)
	return []specs.POSIXRlimit{
		{Type: "RLIMIT_SIGPENDING", Hard: signals, Soft: signals},
		{Type: "RLIMIT_MEMLOCK", Hard: guest.Locked, Soft: guest.Locked},
	}
}

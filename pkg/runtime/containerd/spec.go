package containerd

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// guestCaps are what the guest needs to start a program as somebody else, to
// kill what it leaves behind and to bring up loopback. They are worth something
// in the sandbox's own namespaces only.
var guestCaps = []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_NET_ADMIN"}

// containerSpec says what differs between the containers that we make. A zero field
// means nothing of the kind.
type containerSpec struct {
	rootfs  string
	devices string   // directory that becomes its /dev; empty: the engine makes one
	args    []string // of process 1
	uid     int      // host uid that is its root
	cgroup  string   // path of its control group
	mounts  []specs.Mount
	caps    []string
	seccomp *specs.LinuxSeccomp
	share   guest.Share
	limits  []specs.POSIXRlimit // besides those that all have
	memory  int64               // bytes; for process 1 and what is not yet in a job's group
	pids    int64
	cpu     float64 // cores; 0: all
}

// spec returns the OCI configuration of a container.
func (s *containerSpec) spec() *specs.Spec {
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(s.uid), Size: sandbox.IDs}}
	umask := uint32(0o022)
	oom := 500 // whatever runs in a sandbox dies before anything of the host
	noSwap := s.memory
	var cpu *specs.LinuxCPU
	if s.cpu > 0 {
		period, quota := uint64(100_000), int64(s.cpu*100_000)
		cpu = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: "assay",
		Root:     &specs.Root{Path: s.rootfs, Readonly: true},
		Process: &specs.Process{
			Args: s.args,
			Cwd:  "/",
			// One thread is enough, and it never lives long enough to collect.
			Env:  []string{"GOMAXPROCS=1", "GOGC=off"},
			User: specs.User{UID: 0, GID: 0, Umask: &umask},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: s.caps, Effective: s.caps, Permitted: s.caps,
			},
			Rlimits: append([]specs.POSIXRlimit{
				{Type: "RLIMIT_CORE", Hard: 0, Soft: 0},
				{Type: "RLIMIT_MSGQUEUE", Hard: 0, Soft: 0},
			}, s.limits...),
			NoNewPrivileges: true,
			OOMScoreAdj:     &oom,
		},
		Mounts: append(s.baseMounts(), s.mounts...),
		Linux: &specs.Linux{
			UIDMappings: ids,
			GIDMappings: ids,
			CgroupsPath: s.cgroup,
			Resources: &specs.LinuxResources{
				Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
				Memory:  &specs.LinuxMemory{Limit: &s.memory, Swap: &noSwap},
				Pids:    &specs.LinuxPids{Limit: &s.pids},
				CPU:     cpu,
			},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.UserNamespace}, {Type: specs.PIDNamespace}, {Type: specs.MountNamespace},
				{Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.CgroupNamespace},
			},
			Seccomp: s.seccomp,
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
				"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
				"/sys/devices/virtual/powercap", "/sys/firmware",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
}

func (s *containerSpec) baseMounts() []specs.Mount {
	devices := specs.Mount{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=64k"}}
	if s.devices != "" { // not the host's, which is what runc would bind there
		devices = specs.Mount{Destination: "/dev", Type: "bind", Source: s.devices, Options: []string{"bind", "ro", "nosuid", "noexec"}}
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		devices,
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", fmt.Sprintf("max=%d", s.share.Terminals)}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
}

// bind binds a file or directory of the host. A flag that its mount has there
// must be asked for: a user namespace cannot take one off.
func bind(source, target string, options ...string) specs.Mount {
	var st unix.Statfs_t
	if err := unix.Statfs(source, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		options = append(options, "noexec")
	}
	return specs.Mount{Destination: target, Type: "bind", Source: source,
		Options: append([]string{"bind", "nosuid", "nodev"}, options...)}
}

// limits are those of a process that makes no namespaces; its programs inherit them.
func limits(share guest.Share) []specs.POSIXRlimit {
	signals := uint64(share.Signals)
	return []specs.POSIXRlimit{
		{Type: "RLIMIT_SIGPENDING", Hard: signals, Soft: signals},
		{Type: "RLIMIT_MEMLOCK", Hard: guest.Locked, Soft: guest.Locked},
	}
}

package filter

import (
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// engineSeccomp returns the engine's default seccomp profile for a process without capabilities,
// with these exceptions: calls with host-wide or uncounted resources, uretprobe, which is internal
// to the kernel, and the newest calls. Each program gets it from its guest, compiled once, because
// leaving it to runc costs an eighth of a container. The guest itself has no filter.
func engineSeccomp(caps ...string) *specs.LinuxSeccomp {
	p := seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}})
	calls := slices.DeleteFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
		return len(s.Names) == 1 && s.Names[0] == "socket"
	})
	for i := range calls {
		calls[i].Names = slices.DeleteFunc(calls[i].Names, func(name string) bool {
			return name == "setsockopt" || name == "uretprobe" || slices.Contains(uncounted, name) || slices.Contains(newest, name)
		})
	}
	p.Syscalls = append(calls, socketCalls()...)
	return p
}

// firstNewest is the number of the first call in newest; all architectures share these numbers.
const firstNewest = 451

// newest are calls that some hosts' libseccomp lacks, so that runc omits them from a cell's
// profile. No program has them, at any isolation: they return ENOSYS, and C libraries use older
// calls. Some reveal mounts of the host.
var newest = []string{
	"cachestat", "fchmodat2", "map_shadow_stack", "futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
	"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat", "getxattrat", "listxattrat", "removexattrat",
	"open_tree_attr", "file_getattr", "file_setattr", "listns", "rseq_slice_yield",
}

// uncounted are calls that no job may make. Their resources have a host-wide limit (fs.aio-max-nr)
// or a limit per creator of the namespaces (message queues), or are memory that the kernel can
// neither swap nor account.
var uncounted = []string{
	"io_setup", "mq_open", "fanotify_init", "fanotify_mark", "memfd_secret",
}

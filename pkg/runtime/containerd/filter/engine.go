package filter

import (
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// engineSeccomp is the engine's default seccomp profile for a process without
// capabilities, without the calls whose resources are counted for the whole host or not at all, without
// uretprobe, which is the kernel's own, and without the newest ones. Each program
// gets it from its guest, compiled once: to leave it to runc costs an eighth of a
// container. The guest itself does without.
func engineSeccomp() *specs.LinuxSeccomp {
	p := seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
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

// firstNewest is the number of the first call in newest; the numbers are the same on all architectures.
const firstNewest = 451

// newest are calls that the libseccomp of some hosts does not have, so that runc leaves them out of the profile of a cell. No
// program is left them, at any isolation: they do not exist, and a C library uses the older ones. Some show mounts of the host.
var newest = []string{
	"cachestat", "fchmodat2", "map_shadow_stack", "futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
	"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat", "getxattrat", "listxattrat", "removexattrat",
	"open_tree_attr", "file_getattr", "file_setattr", "listns", "rseq_slice_yield",
}

// uncounted are system calls that no job is left: what they take comes out of one
// pot for the whole host (fs.aio-max-nr), or for the root who made the namespaces
// (message queues), or is memory that the kernel can neither swap nor see.
var uncounted = []string{
	"io_setup", "mq_open", "fanotify_init", "fanotify_mark", "memfd_secret",
}

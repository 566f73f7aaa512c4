package filter

import (
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// engineSeccomp is the engine's default seccomp profile for a process without
// capabilities, less what is counted for the whole host or by nobody. Each program
// gets it from its guest, compiled once: to leave it to runc costs an eighth of a
// container. The guest itself does without.
func engineSeccomp() *specs.LinuxSeccomp {
	p := seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	calls := slices.DeleteFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
		return len(s.Names) == 1 && s.Names[0] == "socket"
	})
	for i := range calls {
		calls[i].Names = slices.DeleteFunc(calls[i].Names, func(name string) bool { return name == "setsockopt" || slices.Contains(uncounted, name) })
	}
	p.Syscalls = append(calls, socketCalls()...)
	return p
}

// uncounted are system calls that no job is left: what they take comes out of one
// pot for the whole host (fs.aio-max-nr), or for the root who made the namespaces
// (message queues), or is memory that the kernel can neither swap nor see.
var uncounted = []string{
	"io_setup", "mq_open", "fanotify_init", "fanotify_mark", "memfd_secret",
}

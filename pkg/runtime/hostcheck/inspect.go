package hostcheck

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	stdruntime "runtime"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// probeTime limits the self-check on an overloaded machine.
const probeTime = 20 * time.Second

// Worker is the properties of a worker that determine this host's isolations.
type Worker struct {
	Guest  string // the guest binary
	Runsc  string // gVisor's; empty: none
	VM     bool   // a containerd handler runs virtual machines
	Groups *cgroup.Hierarchy
	Root   string // mount point of control groups
}

// Inspect runs the self-check of this host. It reports the resources, the working isolations, and
// missing features of the others. It runs a program each with guest and runsc.
func Inspect(ctx context.Context, w Worker) policy.Host {
	h := policy.Host{
		CgroupV2: w.Groups.V2(), Cores: stdruntime.NumCPU(), Memory: Memory(),
		Processes: MostProcesses("/"), OpenFiles: MostOpenFiles(), Stack: MostStack(),
	}
	if why := lacksUserNamespaces(); why != "" {
		h.Missing = append(h.Missing, why)
		return h
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := ProbeCell(ctx, w.Guest); err != nil {
		h.Missing = append(h.Missing, "isolation cell: "+err.Error())
	} else {
		h.Isolations = append(h.Isolations, policy.Cell)
	}
	h.Isolations = append(h.Isolations, policy.Task)
	if w.Runsc != "" {
		if err := ProbeGVisor(ctx, w.Runsc); err != nil {
			h.Missing = append(h.Missing, "isolation gvisor: "+err.Error())
		} else {
			h.Isolations = append(h.Isolations, policy.GVisor)
		}
	}
	if w.VM {
		h.Isolations = append(h.Isolations, policy.VM)
	}
	Withhold(&h, Privileges(w.Root))
	return h
}

// lacksUserNamespaces returns why this host cannot create user namespaces, or "".
func lacksUserNamespaces() string {
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return "user namespaces: the kernel was built without them"
	}
	data, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if n, aerr := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && aerr == nil && n == 0 {
		return "user namespaces: they are switched off; set sysctl user.max_user_namespaces above 0"
	}
	return ""
}

// Memory returns the memory of this host or this container in bytes, or 0 if unknown.
func Memory() job.Size {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); err == nil {
			return lesser(job.Size(kib)*job.KiB, memoryLimit(cgroup.DefaultRoot))
		}
	}
	return 0
}

// memoryLimit returns the limit of the control group mounted at root, or 0 for none. In a
// container, this is the container's group, which includes its jobs.
func memoryLimit(root string) job.Size {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil { // otherwise it is max
			return job.Size(n)
		}
	}
	return 0
}

// lesser returns the smaller of a size and a limit; limit 0 means none.
func lesser(size, limit job.Size) job.Size {
	if limit > 0 && limit < size {
		return limit
	}
	return size
}

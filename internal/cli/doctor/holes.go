package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	stdruntime "runtime"
	"strings"

	"github.com/assay-run/assay/internal/advisories"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// holes reports known vulnerabilities of the kernel and of the programs that make containers.
func (h Host) holes(ctx context.Context) Finding {
	host := advisories.Host{Root: h.Root}
	if path, err := exec.LookPath(filepath.Join(h.Bin, "runsc")); err == nil {
		host.Runsc = path
	} else if path, err := exec.LookPath("runsc"); err == nil {
		host.Runsc = path
	}
	return judgeHoles(host.Examine(ctx))
}

func judgeHoles(found []advisories.Finding, unknown []string) Finding {
	const check = "known holes"
	if len(found) == 0 && len(unknown) == 0 {
		return ok(check, "none known to this version")
	}
	var ids, advice []string
	for _, f := range found {
		ids = append(ids, f.ID+" in "+f.Program+" "+f.Version)
		advice = append(advice, f.String())
	}
	for _, u := range unknown {
		ids = append(ids, "unknown: "+u)
	}
	if len(advice) == 0 {
		advice = []string{"see that it is up to date"}
	}
	return Finding{check, Limited, strings.Join(ids, ", "), strings.Join(advice, "; ")}
}

// settings reports kernel settings that are too lax.
func (h Host) settings() Finding {
	const check = "settings"
	if lax := (advisories.Host{Root: h.Root}).Settings(); len(lax) > 0 {
		return Finding{check, Limited, fmt.Sprintf("%d are lax", len(lax)), strings.Join(lax, "; ")}
	}
	return ok(check, "as they should be")
}

// shares reports whether the host-wide resources of the kernel are sufficient for all jobs.
func (h Host) shares() Finding {
	const check = "shares"
	jobs := 8 * stdruntime.NumCPU()
	root := h.path("/")
	s, processes := hostcheck.ShareOf(root, jobs), hostcheck.MostProcesses(root)
	found := fmt.Sprintf("of %d jobs each gets %d inotify instances, %d watches, %d queued signals, %d terminals, at most %d processes",
		jobs, s.Instances, s.Watches, s.Signals, s.Terminals, processes)
	var advice []string
	if s.Instances < 2 {
		advice = append(advice, fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d", 32*jobs))
	}
	if s.Watches < 1024 {
		advice = append(advice, fmt.Sprintf("sysctl -w fs.inotify.max_user_watches=%d", 4096*jobs))
	}
	if processes < 1024 {
		advice = append(advice, "sysctl -w kernel.pid_max=4194304")
	}
	if len(advice) > 0 {
		return Finding{check, Limited, found, strings.Join(advice, "; ")}
	}
	return ok(check, found)
}

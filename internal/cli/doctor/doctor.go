// Package doctor examines a host. It reports which isolations and limits the host supports, and how to fix the unsupported ones.
//
// It only reads: /proc, /sys, and the versions that programs print. A worker does not use it; it advertises the
// findings of its own runtime. This package explains them to people.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Limited Level = "limited" // works, but less is enforced or available
	Missing Level = "missing" // jobs cannot run here
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // the fix, unless Level is OK
}

// Host is the place to examine. The zero value is this host.
type Host struct {
	Root   string // prefix of /proc, /sys and the like, for tests
	Bin    string // directory of our own programs
	Data   string // directory on the file system that the fleet would use
	Images []string
}

// Examine makes all checks.
func (h Host) Examine(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out := []Finding{h.kernel(), h.root(), h.cgroup(), h.userNamespaces(), h.overlay(), h.seccomp()}
	for _, p := range programs {
		out = append(out, p.find(ctx))
	}
	out = append(out, h.holes(ctx), h.settings(), h.shares(), judgePrivileges(hostcheck.Privileges(cgroup.DefaultRoot)))
	out = append(out, h.guest(), h.images(), h.disk(), h.memory())
	return append(out, isolation(out, h.probe(ctx), h.probeGVisor(ctx)))
}

// probeGVisor returns the reason why this host cannot run gVisor, or nil.
func (h Host) probeGVisor(ctx context.Context) error {
	path, err := exec.LookPath(filepath.Join(h.Bin, "runsc"))
	if err != nil {
		path, err = exec.LookPath("runsc")
	}
	switch {
	case err != nil:
		return errors.New("runsc is not installed")
	case os.Geteuid() != 0:
		return errors.New("can only be tried as root")
	}
	return hostcheck.ProbeGVisor(ctx, path)
}

// probe returns the reason why this host cannot run cells, or nil.
func (h Host) probe(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("can only be tried as root")
	}
	return hostcheck.ProbeCell(ctx, filepath.Join(h.Bin, "guest"))
}

// isolation returns the isolation levels of this host, from the findings and from attempts to make
// a cell and a gVisor sandbox.
func isolation(found []Finding, cell, gvisor error) Finding {
	const check = "isolation"
	if !Healthy(found) {
		return Finding{check, Missing, "none", "install the missing parts above"}
	}
	levels := []string{string(policy.Task)}
	var lacks []string
	if cell != nil {
		lacks = append(lacks, "no cells: "+cell.Error())
	} else {
		levels = append([]string{string(policy.Cell)}, levels...)
	}
	if gvisor != nil {
		lacks = append(lacks, "no gvisor: "+gvisor.Error())
	} else {
		levels = append(levels, string(policy.GVisor))
	}
	if cell != nil {
		return Finding{check, Limited, strings.Join(levels, ", "), strings.Join(lacks, "; ")}
	}
	return ok(check, strings.Join(append([]string{strings.Join(levels, ", ")}, lacks...), "; "))
}

// Healthy reports whether jobs can run here.
func Healthy(fs []Finding) bool {
	return !slices.ContainsFunc(fs, func(f Finding) bool { return f.Level == Missing })
}

func (h Host) path(p string) string { return filepath.Join(h.Root, p) }

// read returns the text of a small file, or "" if it cannot be read.
func (h Host) read(p string) string {
	b, err := os.ReadFile(h.path(p))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func ok(check, found string) Finding { return Finding{Check: check, Level: OK, Found: found} }

func (h Host) kernel() Finding {
	release := h.read("/proc/sys/kernel/osrelease")
	var major, minor, patch int
	if n, _ := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); n < 2 { // 6.18-rc1 has no patch level
		return Finding{"kernel", Limited, "unknown", "Assay needs Linux 5.10 or newer; /proc has no readable version"}
	}
	if major < 5 || major == 5 && minor < 10 {
		return Finding{"kernel", Missing, release, "use a distribution with Linux 5.10 or newer, such as Debian 12"}
	}
	if starvesThreads(major, minor, patch) {
		return Finding{"kernel", Limited, release + " has a scheduler bug: kernel threads can starve, and all jobs hang for minutes",
			"use 6.18.45 or a later 6.18, 7.0 or later, or before 6.13"}
	}
	return ok("kernel", release)
}

// starvesThreads reports whether a kernel has the scheduler bug of commit 6d71a9c61604 (Linux 6.13). Re-weighting a
// running cgroup can owe it minutes of CPU, and kernel threads on its core starve meanwhile. Commit 101f3498b4bd
// reverts it, in 6.18.45 too. Linux 6.19 came out before the revert; 7.0 and later count as repaired.
func starvesThreads(major, minor, patch int) bool {
	return major == 6 && (minor >= 13 && minor < 18 || minor == 18 && patch < 45 || minor >= 19)
}

func (h Host) root() Finding {
	if os.Geteuid() != 0 {
		return Finding{"root", Missing, fmt.Sprintf("uid %d", os.Geteuid()), "containerd needs root: run the worker (or assay dev) with sudo"}
	}
	return ok("root", "uid 0")
}

// needed are the cgroup controllers that enforce limits.
var needed = []string{"cpu", "memory", "pids"}

func (h Host) cgroup() Finding {
	if list := h.read("/sys/fs/cgroup/cgroup.controllers"); list != "" {
		return judgeControllers("cgroup v2", strings.Fields(list))
	}
	var have []string
	for _, line := range strings.Split(h.read("/proc/self/cgroup"), "\n") {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 {
			have = append(have, strings.Split(parts[1], ",")...)
		}
	}
	return judgeControllers("cgroup v1", have)
}

func judgeControllers(version string, have []string) Finding {
	var lacking []string
	for _, c := range needed {
		if !slices.Contains(have, c) {
			lacking = append(lacking, c)
		}
	}
	if len(lacking) == 0 {
		return ok("cgroup", version+" with "+strings.Join(needed, ", "))
	}
	return Finding{"cgroup", Missing, version + " without " + strings.Join(lacking, ", "),
		"limits need these controllers: mount cgroup v2 at /sys/fs/cgroup, or boot with cgroup_enable=memory"}
}

func (h Host) userNamespaces() Finding {
	const check = "user namespaces"
	most := h.read("/proc/sys/user/max_user_namespaces")
	switch {
	case most == "":
		return Finding{check, Missing, "not in this kernel", "use a kernel with CONFIG_USER_NS"}
	case most == "0":
		return Finding{check, Missing, "switched off", "sysctl -w user.max_user_namespaces=15000"}
	case h.read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return Finding{check, Limited, "for root only", "cells need them without root: sysctl -w kernel.unprivileged_userns_clone=1"}
	case h.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return Finding{check, Limited, "restricted by AppArmor", "cells need them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"}
	}
	return ok(check, "at most "+most)
}

func (h Host) overlay() Finding {
	for _, line := range strings.Split(h.read("/proc/filesystems"), "\n") {
		if strings.TrimSpace(strings.TrimPrefix(line, "nodev")) == "overlay" {
			return ok("overlayfs", "available")
		}
	}
	return Finding{"overlayfs", Limited, "not loaded", "modprobe overlay; without it containerd copies images, which is slow"}
}

func (h Host) seccomp() Finding {
	if h.read("/proc/sys/kernel/seccomp/actions_avail") == "" {
		return Finding{"seccomp", Missing, "not in this kernel", "use a kernel with CONFIG_SECCOMP_FILTER"}
	}
	return ok("seccomp", "filters available")
}

func (h Host) guest() Finding {
	file := filepath.Join(h.Bin, "guest")
	if info, err := os.Stat(file); err != nil || info.Mode()&0o111 == 0 {
		return Finding{"guest", Missing, file + " is not there", "it is beside the worker: install assay again (in a clone of the repository: make build)"}
	}
	return ok("guest", file)
}

func (h Host) images() Finding {
	if len(h.Images) == 0 {
		return Finding{"images", Limited, "no archive", "assay dev and assay image build build one (in a clone of the repository: make image); or use images of a registry that this host can reach"}
	}
	return ok("images", strings.Join(h.Images, ", "))
}

// Below these, a fleet soon stops.
const (
	littleDisk   = 4 * job.GiB
	littleMemory = 2 * job.GiB
)

func (h Host) disk() Finding {
	dir := h.Data
	for dir != "/" && dir != "." && dir != "" {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Finding{"disk", Limited, err.Error(), "name another data directory"}
	}
	free := job.Size(st.Bavail) * job.Size(st.Bsize)
	found := fmt.Sprintf("%.1f GiB free in %s", float64(free)/float64(job.GiB), dir)
	if free < littleDisk {
		return Finding{"disk", Limited, found, fmt.Sprintf("have at least %s free: images, results and artifacts are kept there", littleDisk)}
	}
	return ok("disk", found)
}

func (h Host) memory() Finding {
	var kb int64
	for _, line := range strings.Split(h.read("/proc/meminfo"), "\n") {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); err == nil {
			break
		}
	}
	free := job.Size(kb) * job.KiB
	found := fmt.Sprintf("%.1f GiB available", float64(free)/float64(job.GiB))
	if free < littleMemory {
		return Finding{"memory", Limited, found, fmt.Sprintf("have at least %s: a job's default limit is 256Mi, and the fleet itself needs 1Gi", littleMemory)}
	}
	return ok("memory", found)
}

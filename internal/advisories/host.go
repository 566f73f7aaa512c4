package advisories

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Host is the place to examine. The zero value is this host.
type Host struct {
	Root string // prefix of /proc and /usr, for tests

	// Programs outside PATH. An empty name of runsc means that there is none.
	Runc, Containerd, Runsc string
}

// Examine returns the known vulnerabilities of a host, and the checks that it could not make.
func (h Host) Examine(ctx context.Context) (found []Finding, unknown []string) {
	release := h.read("/proc/sys/kernel/osrelease")
	found = append(found, Open("kernel", release, h.changelog("linux-image-"+release))...)
	programs := []struct{ name, path string }{{"runc", h.Runc}, {"containerd", h.Containerd}}
	if h.Runsc != "" {
		programs = append(programs, struct{ name, path string }{"runsc", h.Runsc})
	}
	for _, p := range programs {
		path := p.path
		if path == "" {
			path = p.name
		}
		version, err := ask(ctx, path)
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("the version of %s: %v", p.name, err))
			continue
		}
		found = append(found, Open(p.name, version, h.changelog(p.name))...)
	}
	return Sorted(found), unknown
}

// version matches a dotted number or the day of a gVisor release.
var version = regexp.MustCompile(`(?:^|[\s:])(v?\d+\.\d+[^\s,)]*|release-\d{8}\S*)`)

// ask runs a program with --version.
func ask(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n") // the other lines are about other things
	m := version.FindStringSubmatch(line)
	if m == nil {
		return "", fmt.Errorf("it says %q", strings.TrimSpace(line))
	}
	return m[1], nil
}

// changelogSize limits how much of a change log is read. The newest entries come first.
const changelogSize = 4 << 20

// changelog returns the change log of an installed Debian package, or an empty string.
func (h Host) changelog(name string) string {
	for _, file := range []string{"changelog.Debian.gz", "changelog.gz"} {
		data, err := os.ReadFile(filepath.Join(h.Root, "/usr/share/doc", name, file))
		if err != nil {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(r, changelogSize))
		if err == nil {
			return string(text)
		}
	}
	return ""
}

// read returns the text of a small file, or an empty string if it cannot be read.
func (h Host) read(name string) string {
	data, err := os.ReadFile(filepath.Join(h.Root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Settings returns the kernel settings that are too lax for a host that runs untrusted programs.
func (h Host) Settings() (lax []string) {
	if pattern := h.read("/proc/sys/kernel/core_pattern"); strings.HasPrefix(pattern, "|") {
		lax = append(lax, "kernel.core_pattern pipes every core dump of the host to "+strings.Fields(pattern[1:] + " ?")[0]+", as root; programs here dump none")
	}
	for name, want := range map[string]string{
		"kernel/unprivileged_bpf_disabled": "kernel.unprivileged_bpf_disabled=1",
		"kernel/yama/ptrace_scope":         "kernel.yama.ptrace_scope=1",
		"vm/mmap_min_addr":                 "vm.mmap_min_addr=65536",
	} {
		if h.read("/proc/sys/"+name) == "0" {
			lax = append(lax, "sysctl -w "+want)
		}
	}
	if h.read("/proc/sys/vm/unprivileged_userfaultfd") == "1" {
		lax = append(lax, "sysctl -w vm.unprivileged_userfaultfd=0")
	}
	return lax
}

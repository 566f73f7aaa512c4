package cgroup

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Has implements Group.
func (g *v1Group) Has(pid int) (bool, error) {
	var lists []string
	for _, c := range v1Controllers {
		lists = append(lists, g.file(c, "cgroup.procs"))
	}
	return has(pid, g.path, v1Controllers, lists)
}

// Has implements Group.
func (g *v2Group) Has(pid int) (bool, error) {
	return has(pid, g.path, []string{""}, []string{g.file("cgroup.procs")})
}

// has looks at what the kernel says of the process, which is quick, and, where
// that names another path, at what it says of the group: paths do not compare if
// the file system was mounted from another group than the root of our namespace.
func has(pid int, path string, controllers, lists []string) (bool, error) {
	text, err := read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil // it is in none any more
	}
	if err != nil {
		return false, err
	}
	if inside(text, path, controllers) {
		return true, nil
	}
	for _, list := range lists {
		pids, err := readPids(list)
		if err != nil || !slices.Contains(pids, pid) {
			return false, err
		}
	}
	return true, nil
}

// inside reports whether text, a /proc/PID/cgroup, names path for every one of the
// controllers; "" is that of cgroup v2.
func inside(text, path string, controllers []string) bool {
	found := 0
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) != 3 || fields[2] != path {
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			if slices.Contains(controllers, name) {
				found++
			}
		}
	}
	return found == len(controllers)
}

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

// has first compares the process's own cgroup file, which is fast. If that shows another path, it
// reads the group's list of processes: paths differ if the file system was mounted from a group
// other than our namespace's root.
func has(pid int, path string, controllers, lists []string) (bool, error) {
	text, err := read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil // it is in no group any more
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

// inside reports whether text, a /proc/PID/cgroup, has path for every controller; "" is cgroup v2.
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

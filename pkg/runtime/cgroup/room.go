package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// leaf is the group into which MakeRoom moves the processes of a container.
const leaf = "assay-worker"

// MakeRoom moves the processes of the group at root into a child group. Version 2 delegates
// controllers only from a group without processes, and a container's first group has its processes.
// The host's root group is exempt, and version 1 has no such rule.
func MakeRoom(root string) error {
	if _, err := os.Stat(filepath.Join(root, "cgroup.type")); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	dir := filepath.Join(root, leaf)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("the control groups are not ours to write: %w; mount them writable", err)
	}
	for {
		pids, err := readPids(filepath.Join(root, "cgroup.procs"))
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids { // their new forks are in the next list
			err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
}

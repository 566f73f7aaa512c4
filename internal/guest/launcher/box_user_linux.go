package launcher

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Each box has its own user on the host, from the users that are mapped into its cell. The kernel
// counts some resources per user across all user namespaces: descriptors in transit, pages of
// pipes, and epoll watches.

// idMap is the length of an entry in a map of ids.
const idMap = 4 + 1 + 10 + 2

// setIDs writes into b the map from boxUID to id.
func setIDs(b []byte, id int) { copy(b, fmt.Sprintf("%4d %010d 1", boxUID, id)) }

// holdIDs writes the maps of process n, the first process of a user namespace. They map boxUID to
// id, and all other users of the cell to themselves, because nested boxes may use them. The calling
// thread acts as id, the owner of the files.
func holdIDs(n, id int) error {
	first, count, err := cellIDs()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%d %d 1\n", boxUID, id)
	for _, part := range [][2]int{{first, id}, {id + 1, first + count}} {
		if part[1] > part[0] {
			text += fmt.Sprintf("%d %d %d\n", part[0], part[0], part[1]-part[0])
		}
	}
	for _, f := range []struct{ name, text string }{{"setgroups", "deny"}, {"uid_map", text}, {"gid_map", text}} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", n, f.name), []byte(f.text), 0); err != nil {
			return err
		}
	}
	return nil
}

// maxIDs is the longest text of idsOf.
const maxIDs = 256

// idsOf returns the map of a user namespace inside another process's, in which all users keep their
// ids. A descriptor identifies the process.
func idsOf(pidfd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return "", err
	}
	pid := 0
	for line := range strings.Lines(string(info)) {
		if n, ok := strings.CutPrefix(line, "Pid:"); ok {
			_, _ = fmt.Sscan(n, &pid)
		}
	}
	if pid <= 0 {
		return "", fmt.Errorf("the box that holds another is gone: %w", unix.ESRCH)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err != nil {
		return "", err
	}
	text := ""
	for line := range strings.Lines(string(data)) {
		var inside, outside, n int
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err != nil {
			return "", fmt.Errorf("/proc/%d/uid_map: %q: %w", pid, line, err)
		}
		text += fmt.Sprintf("%d %d %d\n", inside, inside, n)
	}
	if len(text) > maxIDs || text == "" {
		return "", fmt.Errorf("/proc/%d/uid_map has %d bytes: %w", pid, len(data), unix.EINVAL)
	}
	return text, nil
}

// cellIDs returns the users of the cell except the launcher's.
func cellIDs() (first, count int, err error) {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		var inside, outside, n int
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err == nil && inside == os.Getuid() {
			return inside + 1, n - 1, nil
		}
	}
	return 0, 0, fmt.Errorf("the cell has no users: %q", data)
}

// become makes the calling thread act as user and group id, until it changes back. The creator of a
// user namespace is its owner, and may map its own id into it.
func become(id int) error {
	if id == os.Geteuid() {
		return nil
	}
	keep := ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(id), keep); errno != 0 {
		return fmt.Errorf("take a box's group: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(id), keep); errno != 0 {
		return fmt.Errorf("take a box's user: %w", errno)
	}
	return nil
}

// keepForLauncher removes from all threads the right to become the user of a box, so that their
// children, the zygotes, do not inherit it.
func keepForLauncher() error {
	for _, c := range []uintptr{unix.CAP_SETUID, unix.CAP_SETGID} {
		_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, c)
		if errno != 0 && errno != unix.ENOTSUP { // with cgo, in tests

			return fmt.Errorf("keep a capability from zygotes: %w", errno)
		}
	}
	return nil
}

package tracee

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/assay-run/assay/pkg/job"
)

// Hidden checks that no process can access the memory of a process that is about to get
// capabilities. The files of an undumpable process belong to the root of its user namespace, here
// owner, or to the host's root if there is none. This holds since its creation, because it has not
// executed anything yet.
func (t *Process) Hidden(owner int) error {
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", t.pid))
	if err != nil {
		return err
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != 0 && uid != owner {
		return errors.New("the interpreter has not hidden its memory")
	}
	return nil
}

// Prepare prepares t for calls. It fails if t shares memory with its original, except mappings that
// harmless accepts as read-only. The error is a job.ErrConflict and names the mapping.
func (t *Process) Prepare(harmless func(Mapping) bool) error {
	mapped, err := mappings(t.pid)
	if err != nil {
		return err
	}
	code := uintptr(0)
	for _, m := range mapped {
		switch {
		case m.shared && !harmless(m):
			return fmt.Errorf("%w: the session has memory that it would share with its copy, %s: close or unmap it first", job.ErrConflict, m)
		case m.Name == "[vdso]" && m.executable:
			code = m.begin
		}
	}
	if code == 0 {
		return errors.New("the interpreter has no vdso")
	}
	return t.inject(code)
}

// Mapping is a line of /proc/PID/maps.
type Mapping struct {
	Writable   bool
	Name       string // of its file; in brackets, or "", without one
	begin      uintptr
	shared     bool
	executable bool
}

// String describes m for its owner.
func (m Mapping) String() string {
	if m.Name == "" || strings.HasPrefix(m.Name, "/dev/zero") {
		return "without a name"
	}
	return strconv.Quote(m.Name)
}

// mappings returns the memory mappings of a process.
func mappings(pid int) (out []Mapping, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		// begin-end access offset device inode name
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
		from, _, _ := strings.Cut(fields[0], "-")
		begin, err := strconv.ParseUint(from, 16, 64)
		if err != nil || len(fields) != 6 || len(fields[1]) != 4 {
			return nil, fmt.Errorf("/proc/%d/maps: %q", pid, line)
		}
		access := fields[1]
		out = append(out, Mapping{
			begin: uintptr(begin), shared: access[3] == 's', Writable: access[1] == 'w', executable: access[2] == 'x',
			Name: strings.TrimLeft(fields[5], " "),
		})
	}
	return out, nil
}

package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// ProbeCell returns why this host cannot run cells, or nil. It lets guest, the guest binary, create
// a box like a cell. It requires root.
func ProbeCell(ctx context.Context, guest string) error {
	mount, err := sandbox.MountTmpfs("size", "65536")
	if err != nil {
		return fmt.Errorf("mount by descriptor, which takes Linux 5.2: %w", err)
	}
	_ = mount.Close()
	binary, err := inMemory(guest)
	if err != nil {
		return err
	}
	defer binary.Close()
	free, err := NewIDs()
	if err != nil {
		return err
	}
	me := free.Nth(0) + sandbox.ProgramUID
	ids := []syscall.SysProcIDMap{{ContainerID: me, HostID: me, Size: 1}}
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", "probe")
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", []string{}, []*os.File{binary}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: ids, GidMappings: ids,
		Credential:  &syscall.Credential{Uid: uint32(me), Gid: uint32(me), NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if said := strings.TrimSpace(string(out)); err != nil && said != "" {
		return errors.New(strings.TrimPrefix(said, "guest: "))
	}
	return err
}

// inMemory copies a program to memory, where all users may execute it regardless of directory
// permissions.
func inMemory(program string) (*os.File, error) {
	src, err := os.Open(program)
	if err != nil {
		return nil, fmt.Errorf("guest binary: %w", err)
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("guest binary: %w", err)
	}
	dst := os.NewFile(uintptr(fd), "guest")
	defer dst.Close()
	if _, err := io.Copy(dst, src); err != nil {
		return nil, fmt.Errorf("guest binary: %w", err)
	}
	// A file that is open for writing cannot be executed.
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

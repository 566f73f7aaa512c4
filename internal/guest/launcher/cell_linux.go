package launcher

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// Cell is the launcher of a cell: it serves the worker that listens on socket until the connection
// ends. Each job of the cell gets share.
func Cell(socket string, share guest.Share) error {
	if os.Getpid() != 1 {
		return errors.New("the guest must be process 1 of a sandbox")
	}
	runtime.LockOSThread() // only this thread's network namespace changes, to the latest box's
	conn, err := dialPacket(socket)
	if err != nil {
		return fmt.Errorf("connect to the worker: %w", err)
	}
	// A launcher lives as long as its cell and is outside of all policies, so it keeps its heap near
	// the megabyte that it uses. Where supervisors use a runtime stack (clone), a small heap also
	// reduces their copy costs.
	debug.SetGCPercent(20)
	if err := errors.Join(keepForLauncher(), excludeFromForks()); err != nil {
		return err
	}
	// The worker watches boxes; the launcher does not wait for them.
	signal.Ignore(unix.SIGCHLD)
	l := &launcher{conn: conn, share: share, recipes: map[string]*recipe{}, masked: visible(maskedFiles)}
	if _, err := unix.Write(conn, []byte{guest.CellLauncher}); err != nil {
		return err
	}
	for {
		if err := l.serve(); err != nil {
			return err
		}
	}
}

func dialPacket(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
}

type launcher struct {
	conn    int
	share   guest.Share
	masked  []string
	recipes map[string]*recipe // by the message that requests one
	buf     [guest.MaxMessage]byte
	oob     [128]byte
}

// maxRecipes limits the cache; a worker requests only a few.
const maxRecipes = 256

// serve handles one message. The end of the connection ends the launcher, and the kernel then kills
// the whole cell.
func (l *launcher) serve() error {
	n, oobn, _, _, err := unix.Recvmsg(l.conn, l.buf[:], l.oob[:], unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("read from the worker: %w", err)
	case n == 0:
		os.Exit(0)
	}
	files, err := rights(l.oob[:oobn])
	defer func() {
		for _, fd := range files {
			_ = unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	switch l.buf[0] {
	case guest.CellMake:
		if len(files) < 2 {
			return errors.New("make a box: needs a slot and a scratch mount")
		}
		if n < 5 {
			return errors.New("make a box: needs a user")
		}
		l.make(l.buf[5:n], int(binary.LittleEndian.Uint32(l.buf[1:])), files)
		return nil
	case guest.CellZygote:
		if n != 3 || len(files) != 1 {
			return errors.New("start a zygote: needs a kind, a root and a connection")
		}
		go l.zygote(l.buf[1], l.buf[2], os.NewFile(uintptr(files[0]), "connection"))
		files = nil // it is closed there
		return nil
	}
	return fmt.Errorf("unknown message %q", l.buf[0])
}

// rights returns the descriptors in a control message.
func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return out, err
		}
		out = append(out, fds...)
	}
	return out, nil
}

// make creates a box for user uid from the files of the message. It reports failures on the box's
// slot.
func (l *launcher) make(body []byte, uid int, files []int) {
	slot := files[0]
	r := l.recipes[string(body)]
	if r == nil {
		var b guest.Box
		if err := json.Unmarshal(body, &b); err != nil {
			fail(slot, "read the request: "+err.Error(), unix.EINVAL)
			return
		}
		if len(l.recipes) >= maxRecipes {
			for _, old := range l.recipes {
				old.memory.free()
			}
			clear(l.recipes)
		}
		r = newRecipe(&b, l.masked, l.share)
		l.recipes[string(body)] = r
	}
	from := boxFiles{slot: slot, scratch: files[1], parent: -1, owner: -1, network: -1, uid: uid}
	var err error
	switch rest := files[2:]; {
	case !r.nested && len(rest) == 0:
		err = network(-1)
	case !r.nested && len(rest) == 1:
		err = network(rest[0])
	case r.nested && len(rest) == 1:
		if from.parent = rest[0]; r.own {
			from.everybody, err = idsOf(from.parent)
		}
	case r.own && len(rest) == 3:
		from.parent, from.owner, from.network = rest[0], rest[1], rest[2]
	default:
		err = fmt.Errorf("a box with %d files: %w", len(files), unix.EINVAL)
	}
	if err != nil {
		fail(slot, err.Error(), errno(err))
		return
	}
	if err := r.launch(from); err != nil {
		fail(slot, "clone", errno(err))
	}
}

func errno(err error) unix.Errno {
	e := unix.EIO
	_ = errors.As(err, &e)
	return e
}

func fail(slot int, what string, errno unix.Errno) {
	_, _ = unix.Write(slot, append([]byte{guest.BoxFailed, byte(errno), byte(errno >> 8), 0, 0}, what...))
}

// preloads returns the modules in env.
func preloads(env []string) (modules []string) {
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, guest.PreloadVariable+"="); ok {
			modules = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return modules
}

// zygote runs a zygote of a kind until it ends, and reports why. Its descriptor 3 is its connection
// to the worker.
func (l *launcher) zygote(kind, root byte, conn *os.File) {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GO") })
	var said strings.Builder
	args := []string{"-B", "/run/assay/zygote.py", string(kind), string(root)}
	if root == guest.RootOwn { // another root may have other versions
		args = append(args, preloads(env)...)
	}
	cmd := exec.Command("python3", args...)
	// Bind symbols once, not in each child.
	cmd.Env, cmd.Dir = append(env, "LD_BIND_NOW=1"), "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, []*os.File{conn}
	err := cmd.Start()
	_ = conn.Close() // the end of its connection tells the worker that the zygote ended
	if err == nil {
		err = errors.Join(limitZygote(cmd.Process.Pid, l.share), cmd.Wait()) // its status is lost: SIGCHLD is ignored
	}
	why := strings.TrimSpace(said.String())
	if why == "" && err != nil {
		why = err.Error()
	}
	_, _ = unix.Write(l.conn, append([]byte{guest.CellNoZygote, kind}, tail(why, 2000)...))
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

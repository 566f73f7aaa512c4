package launcher

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// Descriptors of a supervisor besides its slot.
const (
	spareFD   = 3 // the lowest free descriptor during the set-up of a box
	scratchFD = guest.SlotFD + 1
)

// Paths in a cell. The root of its boxes is an image, possibly a tenant's; the root of the cell
// itself never is. It is a mount without children, because only such a mount may be bound by a
// process with capabilities in its own user namespace only.
const (
	cellRoot    = "/run/assay/root"
	cellPoints  = "/run/assay/points" // an empty directory
	cellScratch = "/run/assay/slot"   // the socket's location otherwise
)

// call is one system call in the set-up of a box. Calls are prepared in advance, because the
// process that makes them has no Go runtime.
type call struct {
	nr      uintptr
	args    [5]uintptr
	may     bool   // failure is allowed
	failure []byte // the message to the worker after a failure, without the errno
}

// recipe is the list of calls that set up a box.
type recipe struct {
	calls  []call
	sealed []call   // calls in the supervisors' memory
	memory childMem // data for calls, and sealed
	nested bool
	holds  bool // see guest.Box
	own    bool

	identified int // number of calls after which the process has its identity and is unreachable
}

// ptr returns the address of s for a call.
func (r *recipe) ptr(s string) uintptr { return r.data(append([]byte(s), 0)) }

// data returns the address of a copy of b for a call.
func (r *recipe) data(b []byte) uintptr { return addr(&r.memory.bytes(b)[0]) }

// seal completes r.
func (r *recipe) seal() (err error) {
	r.sealed, err = r.memory.calls(r.calls)
	r.calls = nil
	return err
}

// do appends a call. name appears in the worker's log.
func (r *recipe) do(name string, nr uintptr, args ...uintptr) *call {
	c := call{nr: nr, failure: append([]byte{guest.BoxFailed, 0, 0, 0, 0}, name...)}
	copy(c.args[:], args)
	r.calls = append(r.calls, c)
	return &r.calls[len(r.calls)-1]
}

const atCWD = ^uintptr(99) // AT_FDCWD

func (r *recipe) write(file, text string) {
	r.do("open "+file, unix.SYS_OPENAT, atCWD, r.ptr(file), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	r.do("write "+file, unix.SYS_WRITE, spareFD, r.ptr(text), uintptr(len(text)))
	r.do("close "+file, unix.SYS_CLOSE, spareFD)
}

func (r *recipe) mount(source, target, fstype string, flags uintptr, data string) *call {
	var kind, opts, src uintptr
	if fstype != "" {
		kind = r.ptr(fstype)
	}
	if data != "" {
		opts = r.ptr(data)
	}
	if source != "" {
		src = r.ptr(source)
	}
	return r.do("mount "+target, unix.SYS_MOUNT, src, r.ptr(target), kind, flags, opts)
}

func (r *recipe) bind(source, target string) *call {
	return r.mount(source, target, "", unix.MS_BIND, "")
}

const inert = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// newRecipe returns the recipe of b.
func newRecipe(b *guest.Box, masked []string, share guest.Share) *recipe {
	r := &recipe{nested: b.Nested, holds: b.Holds, own: b.Own}
	r.identity()
	r.limitSignals(share)
	r.identified = len(r.calls)
	if b.Nested && !b.Own { // a box with Own set has no rights to its network
		r.loopback()
	}
	r.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if !plain(b.Paths) {
		r.extraRoot(b.Paths)
	} else {
		r.bind(cellRoot, cellRoot)
	}
	r.do("enter the root", unix.SYS_CHDIR, r.ptr(cellRoot))
	r.bind("/dev", "dev")
	r.mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,max=%d", share.Terminals))
	r.mount("proc", "proc", "proc", inert, "")
	if b.First > 0 {
		r.write("proc/sys/kernel/ns_last_pid", strconv.Itoa(b.First-1))
	}
	r.bind("/sys", "sys") // read-only, and with the cell's loopback in it
	for _, m := range masked {
		r.mask(m)
	}
	// The scratch is attached to the rest of the box, so that one umount covers both. Each umount
	// waits for an RCU grace period of the whole machine.
	r.do("attach scratch", unix.SYS_MOVE_MOUNT, scratchFD, r.ptr(""), atCWD, r.ptr(cellScratch), unix.MOVE_MOUNT_F_EMPTY_PATH)
	r.do("close scratch", unix.SYS_CLOSE, scratchFD)
	for i, p := range b.Paths {
		target := strings.TrimPrefix(p, "/")
		r.bind(path.Join(cellScratch, "w"+strconv.Itoa(i)), target)
		if i >= len(b.Paths)-b.ReadOnly { // with the flags of the scratch, which are locked
			r.mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
		}
	}
	r.bind(path.Join(cellScratch, guest.ViewCPUs), strings.TrimPrefix(guest.CPUOnline, "/"))
	r.bind(path.Join(cellScratch, guest.ViewMemory), strings.TrimPrefix(guest.MemInfo, "/"))
	r.do("pivot", unix.SYS_PIVOT_ROOT, r.ptr("."), r.ptr("."))
	r.do("leave the cell", unix.SYS_UMOUNT2, r.ptr("."), unix.MNT_DETACH)
	r.do("enter the new root", unix.SYS_CHDIR, r.ptr("/"))
	r.do("name the host", unix.SYS_SETHOSTNAME, r.ptr("assay"), 5)
	return r
}

// identity makes the process the only user of its user namespace, and unreachable. It writes the
// maps first: after a change of user a process is not dumpable, and its files belong to root.
//
// A map with the ids of others requires rights over the parent namespace. Then the process that
// cloned this one has written it.
func (r *recipe) identity() {
	if !r.holds && !r.own {
		r.do("be reachable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)
		r.write("/proc/self/setgroups", "deny")
		r.writeIDs("/proc/self/uid_map")
		r.writeIDs("/proc/self/gid_map")
	}
	r.do("take the group", unix.SYS_SETRESGID, boxUID, boxUID, boxUID)
	r.do("take the user", unix.SYS_SETRESUID, boxUID, boxUID, boxUID)
	r.do("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
}

// writeIDs writes asked.ids, which differ from box to box.
func (r *recipe) writeIDs(file string) {
	r.do("open "+file, unix.SYS_OPENAT, atCWD, r.ptr(file), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	r.do("write "+file, unix.SYS_WRITE, spareFD, addr(&asked.ids[0]), idMap)
	r.do("close "+file, unix.SYS_CLOSE, spareFD)
}

// loopback brings lo up in the box's own network namespace, because processes that may enter a
// nested box have no rights to the cell's.
func (r *recipe) loopback() {
	r.do("make a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	r.do("bring lo up", unix.SYS_IOCTL, spareFD, unix.SIOCSIFFLAGS, addr(&loUp))
	r.do("close the socket", unix.SYS_CLOSE, spareFD)
}

// boxUID is the user and group of a program in its box.
const boxUID = 1000

// plain reports whether all paths are directories of the image without symbolic links, which could
// lead out of the box during its set-up.
func plain(paths []string) bool {
	for _, p := range paths {
		at := path.Join(cellRoot, p)
		if p == "/dev/shm" {
			continue
		}
		if real, err := filepath.EvalSymlinks(at); err != nil || real != at {
			return false
		}
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// extraRoot mounts the directories of unusual writable paths over the image.
func (r *recipe) extraRoot(paths []string) {
	r.mount("tmpfs", cellPoints, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0755")
	for _, d := range parents(paths) {
		r.do("make "+d, unix.SYS_MKDIRAT, atCWD, r.ptr(path.Join(cellPoints, d)), 0o755).may = true
	}
	r.mount("overlay", cellRoot, "overlay", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, "lowerdir="+cellPoints+":"+cellRoot)
}

// parents returns the directories of paths, outer ones first.
func parents(paths []string) []string {
	var out []string
	for _, p := range paths {
		for i, c := range p {
			if c == '/' && i > 0 {
				out = append(out, p[:i])
			}
		}
		out = append(out, p)
	}
	return out
}

func (r *recipe) mask(file string) {
	target := strings.TrimPrefix(file, "/")
	info, err := os.Stat(file)
	switch {
	case err != nil:
	case info.IsDir():
		r.bind("/dev/pts", target) // an empty directory of the cell
	default:
		r.bind("/dev/null", target)
	}
}

// maskedFiles lists the files of /proc and /sys that engines hide.
var maskedFiles = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	"/sys/devices/virtual/powercap", "/sys/firmware",
}

// visible returns the files that an unprivileged process could read. Other files need no mask.
func visible(files []string) []string {
	var out []string
	for _, f := range files {
		if unix.Access(f, unix.R_OK) == nil {
			out = append(out, f)
		}
	}
	return out
}

// Package artifact finds and reads the files that a job leaves behind, in an untrusted directory
// tree.
//
// The kernel resolves every name beneath a directory that the worker holds open, one component at a
// time, without following links. The tree of a live program may change meanwhile: Collect reads the
// current file, up to its length at discovery.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// Root is a writable directory of a sandbox.
type Root struct {
	Path string   // in the sandbox
	Dir  *os.File // on the host
}

// Limits are the limits of the collected files.
type Limits struct {
	Paths    []string // globs of absolute paths; ** crosses directories
	MaxBytes int64    // of all files; a sparse file counts with its full size
	MaxFiles int
	Time     time.Duration // for everything, including the time of take; 0: unlimited

	entries int // entries to examine; 0: maxEntries
}

// Limits of a walk, because a tree may be as large as its policy's disk.
const (
	maxDepth   = 64
	maxEntries = 100_000
	maxRefused = 20

	// lookTime limits the worker's own time for a walk, without the time of take.
	lookTime = 5 * time.Second

	// maxPath is in bytes. It is the end of an object's path, which may have 1024.
	maxPath = 768

	// maxRecord is the most bytes of collected files in the record.
	maxRecord = 8 << 20
)

// errTime is the cause when a walk's context ends at its time limit.
var errTime = errors.New("the time for collecting artifacts is over")

// Collect calls take for every matching regular file below roots, in path order. Each rejected file
// (a link, a device, a file above a limit) adds a line to refused, and so does each glob without a
// match. At the time limit, take's context ends, and Collect stops and adds a line. Errors are
// take's, or read errors. The reader passed to take yields at most size bytes.
func Collect(ctx context.Context, roots []Root, l Limits, take func(ctx context.Context, path string, size int64, r io.Reader) error) (refused []string, err error) {
	w := &walk{ctx: ctx, limits: l, take: take, globs: compile(l.Paths), met: make([]bool, len(l.Paths)), began: time.Now()}
	if w.limits.entries == 0 {
		w.limits.entries = maxEntries
	}
	var cancel context.CancelCauseFunc
	w.ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := w.turn.enter(ctx, l.Time, func() { cancel(errTime) }); err != nil {
		return nil, err
	}
	defer w.turn.exit()
	roots = slices.Clone(roots)
	slices.SortFunc(roots, func(a, b Root) int { return strings.Compare(a.Path, b.Path) })
	for _, r := range roots {
		live := w.globs.start()
		for part := range strings.SplitSeq(strings.Trim(r.Path, "/"), "/") {
			live = w.globs.advance(live, part)
		}
		if len(live) == 0 {
			continue
		}
		if err := w.dir(r.Dir, ".", r.Path, live, 0); err != nil {
			return nil, err
		}
	}
	for i, p := range l.Paths {
		if !w.met[i] && !w.over {
			w.refuse(p, "matched nothing below "+directories(roots))
		}
	}
	if w.more > 0 {
		w.refused = append(w.refused, fmt.Sprintf("… and %d more refused", w.more))
	}
	return append(w.refused, w.last...), nil
}

type walk struct {
	ctx    context.Context
	limits Limits
	globs  globs
	met    []bool // by pattern: it had a match
	take   func(context.Context, string, int64, io.Reader) error

	turn           turn
	began          time.Time
	taking         time.Duration // spent in take
	over           bool          // the walk has ended
	entries, files int
	bytes          int64
	record         int // bytes of the record for the files
	refused        []string
	last           []string // refusals that are always included
	more           int
}

func (w *walk) refuse(path, why string) {
	if len(w.refused) >= maxRefused {
		w.more++
		return
	}
	w.refused = append(w.refused, refusal(path, why))
}

func refusal(path, why string) string { return fmt.Sprintf("%.300q: %s", path, why) }

// stop ends the walk at a path.
func (w *walk) stop(at, why string) {
	if !w.over {
		w.over = true
		w.last = append(w.last, refusal(at, why+": this file and later ones were not examined"))
	}
}

// proceed reports whether the walk continues with the entry at. Before, it may wait for a turn. It
// returns the error of the caller's context.
func (w *walk) proceed(at string) (bool, error) {
	if w.turn.over() {
		w.turn.leave()
		w.turn.take()
	}
	switch err := context.Cause(w.ctx); {
	case errors.Is(err, errTime):
		w.stop(at, fmt.Sprintf("collecting took longer than %s", w.limits.Time))
	case err != nil:
		return false, err
	case time.Since(w.began)-w.taking-w.turn.waited > lookTime:
		w.stop(at, fmt.Sprintf("looking for artifacts took longer than %s", lookTime))
	}
	return !w.over, nil
}

// open resolves one name beneath dir.
func open(dir *os.File, name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// dir walks the directory name beneath parent, whose path in the sandbox is at. live has the
// positions of the patterns that can still match.
func (w *walk) dir(parent *os.File, name, at string, live []position, depth int) error {
	if depth > maxDepth {
		w.refuse(at, fmt.Sprintf("more than %d directories deep", maxDepth))
		return nil
	}
	d, err := open(parent, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return w.unreadable(at, err)
	}
	defer d.Close()
	entries, err := d.ReadDir(w.limits.entries - w.entries + 1) // a directory may be larger than the worker's memory
	if err != nil && err != io.EOF {
		return w.unreadable(at, err)
	}
	if w.entries += len(entries); w.entries > w.limits.entries {
		w.entries = w.limits.entries
		entries = entries[:len(entries)-1]
		w.refuse(at, fmt.Sprintf("more than %d files to look at", w.limits.entries))
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if ok, err := w.proceed(path.Join(at, e.Name())); !ok {
			return err
		}
		if err := w.entry(d, e, path.Join(at, e.Name()), live, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(d *os.File, e os.DirEntry, at string, live []position, depth int) error {
	next := w.globs.advance(live, e.Name())
	switch {
	case len(next) == 0:
		return nil
	case e.IsDir():
		return w.dir(d, e.Name(), at, next, depth+1)
	case e.Type()&os.ModeSymlink != 0:
		// Counts as a match even if the pattern continues, because the job may intend to collect
		// through it.
		for _, p := range next {
			w.met[p.glob] = true
		}
		w.refuse(at, "a symbolic link is not followed")
		return nil
	}
	matched := false
	for _, p := range next {
		if w.globs.complete(p) {
			w.met[p.glob], matched = true, true
		}
	}
	if !matched {
		return nil
	}
	return w.file(d, e.Name(), at)
}

func (w *walk) file(d *os.File, name, at string) error {
	f, err := open(d, name, unix.O_RDONLY)
	if err != nil {
		return w.unreadable(at, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return w.unreadable(at, err)
	}
	switch {
	case !info.Mode().IsRegular():
		w.refuse(at, "not a regular file")
		return nil
	case !isText(at):
		w.refuse(at, "its name is not printable UTF-8")
		return nil
	case len(at) > maxPath:
		w.refuse(at, fmt.Sprintf("its path is longer than %d bytes", maxPath))
		return nil
	case w.files >= w.limits.MaxFiles:
		w.refuse(at, fmt.Sprintf("above the limit of %d files", w.limits.MaxFiles))
		return nil
	case info.Size() > w.limits.MaxBytes-w.bytes:
		w.refuse(at, fmt.Sprintf("its %d bytes exceed the rest of the limit of %d", info.Size(), w.limits.MaxBytes))
		return nil
	case w.record+recordSize(at) > maxRecord:
		w.refuse(at, fmt.Sprintf("the record has no room for more artifacts than %d: they take %d bytes of it", w.files, w.record))
		return nil
	}
	w.files++
	w.bytes += info.Size()
	w.record += recordSize(at)
	w.turn.leave() // the store may be far away
	began := time.Now()
	err = w.take(w.ctx, at, info.Size(), io.LimitReader(f, info.Size()))
	w.taking += time.Since(began)
	w.turn.take()
	if err != nil && errors.Is(context.Cause(w.ctx), errTime) {
		_, err = w.proceed(at) // it was not stored
	}
	return err
}

// recordSize estimates the bytes of an artifact in the record: its path twice (once in its object's
// path), type, size and digest.
func recordSize(at string) int { return 2*job.EncodedSize(at) + 400 }

// isText reports whether a name survives JSON, object paths and terminals.
func isText(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// unreadable refuses files for errors that a program can cause, and returns other errors.
func (w *walk) unreadable(at string, err error) error {
	for _, theirs := range []error{unix.ELOOP, unix.EXDEV, unix.ENXIO, unix.ENODEV, unix.EACCES, unix.ENOTDIR, unix.ENAMETOOLONG} {
		if errors.Is(err, theirs) {
			w.refuse(at, "cannot be opened without following links")
			return nil
		}
	}
	for _, gone := range []error{unix.ENOENT, unix.ESTALE, unix.EAGAIN} {
		if errors.Is(err, gone) {
			w.refuse(at, "was removed or moved while it was looked at")
			return nil
		}
	}
	return fmt.Errorf("%s: %w", at, err)
}

// directories names the searched directories.
func directories(roots []Root) string {
	if len(roots) == 0 {
		return "any directory: the job may write to none"
	}
	var names []string
	for _, r := range roots {
		names = append(names, r.Path)
	}
	return strings.Join(names, ", ")
}

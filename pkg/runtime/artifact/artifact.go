// Package artifact finds the files that a job leaves behind and reads them
// without trusting anything about the tree that they are in.
//
// Every name is resolved by the kernel beneath a directory that the worker
// holds open, one component at a time, and no link of any kind is followed. The tree
// of a live program may change meanwhile: what is there to be opened is taken, as
// long as it was when it was found.
package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Root is a writable directory of a sandbox.
type Root struct {
	Path string   // in the sandbox
	Dir  *os.File // on the host
}

// Limits says what to collect.
type Limits struct {
	Paths    []string // globs of absolute paths; ** crosses directories
	MaxBytes int64    // of all files; a sparse file counts by its size
	MaxFiles int
}

// What a walk does at most: a tree may be as large as its policy's disk.
const (
	maxDepth   = 64
	maxEntries = 200_000
	maxRefused = 20

	// maxPath is in bytes. An object's path has 1024, and this is its tail.
	maxPath = 768
)

// Collect calls take for every regular file below roots that matches, in the
// order of their paths. What matches but is refused (a link, a device, a file
// above a limit) is described in refused, one line each, and so is each glob that
// nothing matched. An error is take's, or a failure to read; the reader passed to
// take yields at most size bytes.
func Collect(ctx context.Context, roots []Root, l Limits, take func(path string, size int64, r io.Reader) error) (refused []string, err error) {
	w := &walk{ctx: ctx, limits: l, take: take, met: make([]bool, len(l.Paths))}
	for _, p := range l.Paths {
		w.patterns = append(w.patterns, strings.Split(strings.Trim(p, "/"), "/"))
	}
	roots = slices.Clone(roots)
	slices.SortFunc(roots, func(a, b Root) int { return strings.Compare(a.Path, b.Path) })
	for _, r := range roots {
		live := w.start()
		for part := range strings.SplitSeq(strings.Trim(r.Path, "/"), "/") {
			live = w.advance(live, part)
		}
		if len(live) == 0 {
			continue
		}
		if err := w.dir(r.Dir, ".", r.Path, live, 0); err != nil {
			return nil, err
		}
	}
	for i, p := range l.Paths {
		if !w.met[i] {
			w.refuse(p, "matched nothing below "+directories(roots))
		}
	}
	if w.more > 0 {
		w.refused = append(w.refused, fmt.Sprintf("… and %d more refused", w.more))
	}
	return w.refused, nil
}

type walk struct {
	ctx      context.Context
	limits   Limits
	patterns [][]string
	met      []bool // by pattern: something matched it
	take     func(string, int64, io.Reader) error

	entries, files int
	bytes          int64
	refused        []string
	more           int
}

func (w *walk) refuse(path, why string) {
	if len(w.refused) >= maxRefused {
		w.more++
		return
	}
	w.refused = append(w.refused, fmt.Sprintf("%.300q: %s", path, why))
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

// dir visits the directory name beneath parent, whose path in the sandbox is
// at. live is where the patterns that can still match stand here.
func (w *walk) dir(parent *os.File, name, at string, live []place, depth int) error {
	if depth > maxDepth {
		w.refuse(at, fmt.Sprintf("more than %d directories deep", maxDepth))
		return nil
	}
	d, err := open(parent, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return w.unreadable(at, err)
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return w.unreadable(at, err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if w.entries++; w.entries > maxEntries {
			w.refuse(at, fmt.Sprintf("more than %d files to look at", maxEntries))
			return nil
		}
		if err := w.entry(d, e, path.Join(at, e.Name()), live, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(d *os.File, e os.DirEntry, at string, live []place, depth int) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	next := w.advance(live, e.Name())
	switch {
	case len(next) == 0:
		return nil
	case e.IsDir():
		return w.dir(d, e.Name(), at, next, depth+1)
	case e.Type()&os.ModeSymlink != 0:
		// Named also if the pattern goes on behind it: somebody hopes to
		// collect through it.
		for _, p := range next {
			w.met[p.pattern] = true
		}
		w.refuse(at, "a symbolic link is not followed")
		return nil
	case !w.matched(next):
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
		w.refuse(at, fmt.Sprintf("its %d bytes are above what is left of the limit of %d", info.Size(), w.limits.MaxBytes))
		return nil
	}
	w.files++
	w.bytes += info.Size()
	return w.take(at, info.Size(), io.LimitReader(f, info.Size()))
}

// isText reports whether a name survives the way through JSON and object paths,
// and onto a terminal.
func isText(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// unreadable refuses what a program can cause and reports the rest.
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

// place is how far into a pattern a walk has come.
type place struct{ pattern, part int }

func (w *walk) start() []place {
	live := make([]place, len(w.patterns))
	for i := range live {
		live[i].pattern = i
	}
	return live
}

// advance returns where the patterns stand after one more component.
func (w *walk) advance(live []place, name string) []place {
	var next []place
	for _, at := range live {
		parts := w.patterns[at.pattern]
		// A ** takes this component and may take more, or none at all.
		for at.part < len(parts) && parts[at.part] == "**" {
			next = append(next, at)
			at.part++
		}
		if at.part == len(parts) {
			continue
		}
		if ok, err := path.Match(parts[at.part], name); ok && err == nil {
			next = append(next, place{at.pattern, at.part + 1})
		}
	}
	slices.SortFunc(next, func(a, b place) int { return cmp.Or(a.pattern-b.pattern, a.part-b.part) })
	return slices.Compact(next)
}

// matched reports whether a pattern is used up, and notes which. A trailing ** takes any file.
func (w *walk) matched(live []place) (any bool) {
	for _, at := range live {
		if rest := w.patterns[at.pattern][at.part:]; len(rest) == 0 || len(rest) == 1 && rest[0] == "**" {
			w.met[at.pattern], any = true, true
		}
	}
	return any
}

// directories names those that were searched.
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

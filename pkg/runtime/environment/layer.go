package environment

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime"
)

// Limits of a layer besides its bytes.
const (
	layerFiles = 300_000
	layerDepth = 48
	layerPath  = 1024 // bytes
)

// layer copies a tree to its permanent place. It accepts only files and directories at places for
// packages.
type layer struct {
	from, to, base *os.Root
	search         []string // the base's directories of programs
	most           int64    // bytes

	sum   hash.Hash
	bytes int64
	files int
}

// copyLayer copies from to the empty directory to. It returns the number of bytes, and a hash of
// all names, executable bits and content. It creates new files, so that owners, modes, times and
// attributes, including overlay's, are not copied. The error is a *runtime.BuildError if the tree
// must not be mounted on base.
func copyLayer(from *os.Root, to string, base Base, most int64) (n int64, tree string, err error) {
	l := &layer{from: from, search: searchPath(base.Env), most: most, sum: sha256.New()}
	if l.base, err = os.OpenRoot(base.Root); err != nil {
		return 0, "", fmt.Errorf("keep an environment: %w", err)
	}
	defer l.base.Close()
	if l.to, err = os.OpenRoot(to); err != nil {
		return 0, "", fmt.Errorf("keep an environment: %w", err)
	}
	defer l.to.Close()
	var late error
	err = fs.WalkDir(from.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		// Forbidden byte code is reported as its module's error, which follows.
		if err := l.add(p, d); err == nil || d.Name() != "__pycache__" {
			return err
		} else if late == nil {
			late = err
		}
		return fs.SkipDir
	})
	if err == nil {
		err = late
	}
	if failure := new(runtime.BuildError); err != nil && !errors.As(err, &failure) {
		err = fmt.Errorf("keep an environment: %w", err)
	}
	return l.bytes, hex.EncodeToString(l.sum.Sum(nil)), err
}

// add copies one entry. Its parent was copied before.
func (l *layer) add(p string, d fs.DirEntry) error {
	l.files++
	switch {
	case l.files > layerFiles:
		return buildError("the packages hold more than %d files", layerFiles)
	case len(p) > layerPath || strings.Count(p, "/") >= layerDepth:
		return buildError("a package holds /%.200s…, which is too long or too deep", p)
	}
	if d.IsDir() {
		if bad := l.misplaced(p, true); bad != "" {
			return buildError("a package holds /%.200s: %s", p, bad)
		}
		fmt.Fprintf(l.sum, "d %d:%s\n", len(p), p)
		return l.to.Mkdir(p, 0o755)
	}
	if !d.Type().IsRegular() {
		return buildError("a package holds /%.200s, which is no file or directory", p)
	}
	if bad := l.misplaced(p, false); bad != "" {
		return buildError("a package holds /%.200s: %s", p, bad)
	}
	return l.copyFile(p)
}

func (l *layer) copyFile(p string) error {
	src, err := openPlain(l.from, p)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return buildError("a package holds /%.200s, which would run as another user", p)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	dst, err := l.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	content := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, content), io.LimitReader(src, l.most-l.bytes+1))
	if err = errors.Join(err, dst.Chmod(mode), dst.Close()); err != nil {
		return err
	}
	if l.bytes += n; l.bytes > l.most {
		return buildError("the packages are larger than this worker allows for an environment")
	}
	fmt.Fprintf(l.sum, "f %d:%s %o %d %x\n", len(p), p, mode, n, content.Sum(nil))
	return nil
}

const (
	notThere = "packages may have files below /usr/local, /usr and /opt only, and not among the image's own"
	taken    = "the image has something else there"
)

// misplaced returns why a package may not have p, or "". Packages may extend the image, but only
// replace packages and their scripts.
func (l *layer) misplaced(p string, dir bool) string {
	place := placeOf(p)
	if place == nowhere || !dir && place == passage {
		return notThere
	}
	have, err := l.base.Lstat(p)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return taken
	case dir != have.IsDir():
		return taken
	case !dir && place == anywhere:
		return taken
	}
	if !dir && place == programs {
		for _, where := range append(l.search, path.Dir(p)) {
			if !l.isScript(path.Join(where, path.Base(p))) {
				return "the image has a program of that name, which is no script of a package"
			}
		}
	}
	return ""
}

// isScript reports whether the base has a Python script at p, or no file.
func (l *layer) isScript(p string) bool {
	f, err := l.base.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "#!") && strings.Contains(line, "python")
}

// searchPath returns the directories of an image's PATH, relative to its root.
func searchPath(env []string) (out []string) {
	list := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			list += ":" + value
		}
	}
	for dir := range strings.SplitSeq(list, ":") {
		if path.IsAbs(dir) {
			out = append(out, strings.TrimPrefix(path.Clean(dir), "/"))
		}
	}
	return out
}

// layerPlace is a kind of path with its rules for packages.
type layerPlace int

const (
	nowhere  layerPlace = iota
	passage             // a directory on the way to another place
	packages            // any file
	programs            // scripts that do not hide programs of the image
	anywhere            // paths that the image lacks
)

// placeOf classifies a path below an image's root. Installation prefixes are /usr/local, /usr and
// the directories in /opt. Most of /usr belongs to the image.
func placeOf(p string) layerPlace {
	parts := strings.Split(p, "/")
	system := false
	switch {
	case parts[0] == "opt" && len(parts) > 1:
		parts = parts[2:]
	case parts[0] == "usr" && len(parts) > 1 && parts[1] == "local":
		parts = parts[2:]
	case parts[0] == "usr":
		parts, system = parts[1:], true
	case parts[0] != "opt":
		return nowhere
	default:
		return passage
	}
	if len(parts) == 0 {
		return passage
	}
	switch top := parts[0]; {
	case top == "bin" && len(parts) <= 2:
		if len(parts) == 1 {
			return passage
		}
		return programs
	case top == "bin" || top == "sbin":
		return nowhere
	case (top == "lib" || top == "lib64") && len(parts) == 1:
		return passage
	case (top == "lib" || top == "lib64") && strings.HasPrefix(parts[1], "python3"):
		switch {
		case len(parts) == 2:
			return passage
		case parts[2] != "site-packages" && parts[2] != "dist-packages":
			return nowhere
		case len(parts) == 3:
			return passage
		}
		return packages
	case system && top != "share" && top != "include":
		return nowhere
	}
	return anywhere
}

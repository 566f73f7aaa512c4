package environment

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// An environment is transferred as a tar archive in zstd: lockEntry, which lists its packages, then
// the layer in path order. Owners, times and modes (except two) are normalized, so that all workers
// pack an environment to the same bytes. Archives are untrusted: see fetch.

const (
	lockEntry   = "lock.json"
	layerEntry  = "layer/"
	lockMost    = 1 << 20 // bytes
	entryMost   = 4 << 10 // bytes of an entry besides its content: its header, and the header of a long name
	archiveBack = 4 << 20 // the decoder's window in bytes
)

// travelling is the metadata in an archive. The rest of a lockfile is computed.
type travelling struct {
	Packages []string `json:"packages"`
	Private  bool     `json:"private,omitempty"`
}

// pack writes the environment in dir to w.
func pack(w io.Writer, dir string, l *lockfile) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(archiveBack))
	if err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	defer z.Close()
	raw, err := json.Marshal(travelling{l.Packages, l.Private})
	if err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	t := tar.NewWriter(z)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: lockEntry, Mode: 0o644, Size: int64(len(raw))}); err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	if _, err := t.Write(raw); err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	layer, err := os.OpenRoot(filepath.Join(dir, layerName))
	if err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	defer layer.Close()
	err = fs.WalkDir(layer.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		return packEntry(t, layer, p, d)
	})
	if err := errors.Join(err, t.Close(), z.Close()); err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	return nil
}

func packEntry(t *tar.Writer, layer *os.Root, p string, d fs.DirEntry) error {
	if d.IsDir() {
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: layerEntry + p + "/", Mode: 0o755})
	}
	f, err := openPlain(layer, p)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: layerEntry + p, Mode: 0o644, Size: info.Size()}
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// unpack writes the layer in an archive to the empty directory to, and returns the archive's
// metadata. The archive is untrusted: entries other than directories and plain files are errors,
// and so are more bytes or files than allowed. copyLayer later checks the paths. The error is a
// *runtime.BuildError if the archive is at fault.
func unpack(r io.Reader, to string, most int64, files int) (said travelling, err error) {
	limit := most + int64(files+2)*entryMost
	src := &watched{r: &atMost{r: r, left: limit}}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(archiveBack), zstd.WithDecoderMaxWindow(archiveBack))
	if err != nil {
		return said, fmt.Errorf("unpack an environment: %w", err)
	}
	defer z.Close()
	into, err := os.OpenRoot(to)
	if err != nil {
		return said, fmt.Errorf("unpack an environment: %w", err)
	}
	defer into.Close()
	u := &unpacker{tar: tar.NewReader(&atMost{r: z, left: limit}), to: into, left: most, files: files}
	said, err = u.run()
	if src.err != nil { // a read failed; the archive is not at fault
		return said, fmt.Errorf("fetch an environment: %w", src.err)
	}
	return said, err
}

// atMost returns an error after this many bytes.
type atMost struct {
	r    io.Reader
	left int64
}

var errTooLong = errors.New("it is longer than an environment may be")

func (a *atMost) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > a.left {
		p = p[:a.left]
	}
	n, err := a.r.Read(p)
	a.left -= int64(n)
	return n, err
}

// watched records read errors, except those about the content.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, errTooLong) {
		w.err = err
	}
	return n, err
}

// unpacker unpacks an archive into a directory.
type unpacker struct {
	tar   *tar.Reader
	to    *os.Root
	left  int64 // remaining bytes of content
	files int   // remaining entries
}

func (u *unpacker) run() (said travelling, err error) {
	if said, err = u.lock(); err != nil {
		return said, err
	}
	for {
		h, err := u.tar.Next()
		if err == io.EOF {
			return said, nil
		}
		if err != nil {
			return said, buildError("the archive is broken: %v", err)
		}
		if err := u.entry(h); err != nil {
			return said, err
		}
	}
}

// lock reads the first entry.
func (u *unpacker) lock() (said travelling, err error) {
	h, err := u.tar.Next()
	if err != nil {
		return said, buildError("the archive is broken: %v", err)
	}
	if h.Name != lockEntry || h.Typeflag != tar.TypeReg || h.Size > lockMost {
		return said, buildError("the archive begins with %.200q, and not with a list of packages", h.Name)
	}
	if err := json.NewDecoder(u.tar).Decode(&said); err != nil {
		return said, buildError("the archive's list of packages is broken: %v", err)
	}
	return said, nil
}

// entry creates a directory or a file. Its parent was created before.
func (u *unpacker) entry(h *tar.Header) error {
	u.files--
	p, below := strings.CutPrefix(h.Name, layerEntry)
	dir := h.Typeflag == tar.TypeDir
	if dir {
		p = strings.TrimSuffix(p, "/")
	}
	switch {
	case u.files < 0:
		return buildError("the archive holds more files than an environment may")
	case !below || p == "." || !fs.ValidPath(p):
		return buildError("the archive holds %.200q, which is no path below a root", h.Name)
	case len(p) > layerPath || strings.Count(p, "/") >= layerDepth:
		return buildError("the archive holds /%.200s…, which is too long or too deep", p)
	case !dir && h.Typeflag != tar.TypeReg:
		return buildError("the archive holds /%.200s, which is no file or directory", p)
	case h.Mode != 0o755 && (dir || h.Mode != 0o644):
		return buildError("the archive holds /%.200s with mode %o", p, h.Mode)
	case h.Size < 0 || h.Size > u.left:
		return buildError("the archive is larger than this worker allows for an environment")
	}
	if dir {
		return contradiction(u.to.Mkdir(p, 0o755))
	}
	u.left -= h.Size
	f, err := u.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode))
	if err != nil {
		return contradiction(err)
	}
	_, err = io.Copy(f, u.tar)
	bad := err
	if err := errors.Join(f.Chmod(fs.FileMode(h.Mode)), f.Close()); err != nil {
		return fmt.Errorf("unpack an environment: %w", err)
	}
	if path := new(fs.PathError); errors.As(bad, &path) { // an error of the disk
		return fmt.Errorf("unpack an environment: %w", bad)
	}
	if bad != nil {
		return buildError("the archive is broken: %v", bad)
	}
	return nil
}

// contradiction converts an error into the archive's fault if an earlier entry prevents a later
// one.
func contradiction(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return buildError("the archive contradicts itself: %v", err)
	}
	return fmt.Errorf("unpack an environment: %w", err)
}

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

// An environment travels as a tar archive in zstd: lockEntry, which says which packages are
// in it, then the layer in the order of its paths. Owners, times and other modes than two do
// not travel, so that an environment is the same bytes whoever packs it. Whoever unpacks one
// believes nothing of it: see fetch.

const (
	lockEntry   = "lock.json"
	layerEntry  = "layer/"
	lockMost    = 1 << 20 // bytes
	entryMost   = 4 << 10 // bytes that an entry takes besides its content: its header, and that of a long name
	archiveBack = 4 << 20 // bytes that the decoder looks back: the window
)

// travelling is what an archive says of itself. The rest of a lockfile is found out.
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

// unpack writes what an archive has as a layer to the empty directory to, and returns what
// the archive says of itself. It may be anybody's work: what is no directory or plain file
// ends it, and so do more than the given numbers of bytes and files. Whether packages may put
// files where these are is for copyLayer to find out. The error is a *runtime.BuildError
// if it is the archive's.
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
	if src.err != nil { // reading failed, not what was read
		return said, fmt.Errorf("fetch an environment: %w", src.err)
	}
	return said, err
}

// atMost ends reading with an error after so many bytes.
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

// watched remembers why reading failed, unless it is for what was read.
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

// unpacker is an archive on its way to a directory.
type unpacker struct {
	tar   *tar.Reader
	to    *os.Root
	left  int64 // bytes of content
	files int   // and of entries
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

// entry makes a directory or a file. Its directory has come before it.
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
	if path := new(fs.PathError); errors.As(bad, &path) { // the disk
		return fmt.Errorf("unpack an environment: %w", bad)
	}
	if bad != nil {
		return buildError("the archive is broken: %v", bad)
	}
	return nil
}

// contradiction says of what cannot be made because of what was made before that it is the
// archive's fault.
func contradiction(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return buildError("the archive contradicts itself: %v", err)
	}
	return fmt.Errorf("unpack an environment: %w", err)
}

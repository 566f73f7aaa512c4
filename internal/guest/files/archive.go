package files

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// pack writes a file or directory as a tar archive. The name of a file is its base; those in a
// directory are relative to it. Sockets are left out.
func pack(path string, out io.Writer) error {
	w := tar.NewWriter(out)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		path, err = filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		err = filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
			if err != nil || at == path {
				return err
			}
			name, err := filepath.Rel(path, at)
			if err != nil {
				return err
			}
			return packOne(w, at, name)
		})
	} else {
		err = packOne(w, path, filepath.Base(path))
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// packOne writes one file, without following links.
func packOne(w *tar.Writer, path, name string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0 {
		return nil
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Format = name, tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return w.WriteHeader(h)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size { // a program has cut it meanwhile
		_, err = io.CopyN(w, zeros{}, h.Size-n)
	}
	return err
}

// zeros reads zero bytes without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// unpack extracts a tar archive into a directory, which it creates. Files belong to the calling user.
// Names that lead out of the directory are refused.
func unpack(dir string, in io.Reader) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(in)
	type dated struct {
		name string
		h    *tar.Header
	}
	var dirs []dated // their modes may forbid writing
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return &Failure{"invalid", "not a tar archive: " + err.Error()}
		}
		name := filepath.Clean(strings.TrimLeft(h.Name, "/"))
		if name == "." {
			continue
		}
		if err := unpackOne(root, name, h, r); err != nil {
			return fmt.Errorf("extract %q: %w", h.Name, err)
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, dated{name, h})
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		d := dirs[i]
		err := errors.Join(root.Chmod(d.name, d.h.FileInfo().Mode().Perm()), root.Chtimes(d.name, d.h.ModTime, d.h.ModTime))
		if err != nil {
			return err
		}
	}
	return nil
}

// unpackOne extracts one entry.
func unpackOne(root *os.Root, name string, h *tar.Header, r io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			return nil
		}
		return root.Mkdir(name, 0o755)
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // never write through a link
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err == nil {
			err = f.Chmod(h.FileInfo().Mode().Perm())
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		return root.Chtimes(name, h.ModTime, h.ModTime)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(filepath.Clean(strings.TrimLeft(h.Linkname, "/")), name)
	case tar.TypeFifo:
		return syscall.Mkfifo(filepath.Join(root.Name(), name), uint32(h.FileInfo().Mode().Perm()))
	}
	return fmt.Errorf("%w: entries of type %q", errors.ErrUnsupported, h.Typeflag)
}

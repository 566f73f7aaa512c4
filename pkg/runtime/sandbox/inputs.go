package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// errInputsFull means that the inputs alone exceed the job's disk.
var errInputsFull = errors.New("the input files do not fit into the disk limit")

// writeInputs writes the input files into the writable space, before the program starts and from
// outside of the sandbox.
func (s *Scratch) writeInputs(ctx context.Context, files []runtime.File) error {
	if err := apart(files); err != nil {
		return err
	}
	for _, f := range files {
		w, rest, ok := s.writableDir(f.Path)
		if !ok {
			return job.Invalid("files", "%q is not below a path of policy.write or policy.read", f.Path)
		}
		err := s.writeInput(ctx, w, rest, f)
		if errors.Is(err, unix.ENOSPC) {
			return errInputsFull
		}
		if err != nil {
			return fmt.Errorf("input %s: %w", f.Path, err)
		}
	}
	return nil
}

// apart returns an error if two files have the same path, or one is beneath the other. Files have
// several sources: a job's inputs, its sources, its compiled output, a checker's data.
func apart(files []runtime.File) error {
	taken := make(map[string]bool, len(files))
	for _, f := range files {
		if taken[f.Path] {
			return job.Invalid("files", "%q appears twice", f.Path)
		}
		taken[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); len(dir) > 1; dir = path.Dir(dir) {
			if taken[dir] {
				return job.Invalid("files", "%q is below %q, which is also a file", f.Path, dir)
			}
		}
	}
	return nil
}

func (s *Scratch) writeInput(ctx context.Context, w Dir, rest string, in runtime.File) error {
	root, err := os.OpenRoot(w.Host)
	if err != nil {
		return err
	}
	defer root.Close()
	uid, mode := s.UID+ProgramUID, inputMode(in.Data)
	if in.Compiled {
		uid, mode = s.UID, 0o555
	}
	if err := s.clearWay(root, w, rest, uid); err != nil {
		return err
	}
	src := io.ReadCloser(io.NopCloser(bytes.NewReader(in.Data)))
	if in.Data == nil && in.Open != nil {
		if src, err = in.Open(ctx); err != nil {
			return err
		}
	}
	defer src.Close()
	dst, err := root.OpenFile(rest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Chown(uid, uid), dst.Chmod(mode), dst.Close())
}

// clearWay creates the parent directories of the input rest, and removes the image's entry at this
// path. Problems with that are the image's fault.
func (s *Scratch) clearWay(root *os.Root, w Dir, rest string, uid int) (err error) {
	defer func() {
		if err != nil && w.over && !errors.Is(err, unix.ENOSPC) {
			err = job.Invalid("files", "%q cannot replace the image's file: %v", w.Path+"/"+rest, err)
		}
	}()
	for i, c := range rest {
		if c != '/' {
			continue
		}
		err := root.Mkdir(rest[:i], 0o755)
		if err == nil {
			err = root.Lchown(rest[:i], uid, uid)
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if !w.over {
		return nil
	}
	info, err := root.Lstat(rest)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory")
	}
	return root.Remove(rest)
}

// inputMode makes scripts and binaries executable, because the job format has no modes.
func inputMode(data []byte) os.FileMode {
	if bytes.HasPrefix(data, []byte("#!")) || bytes.HasPrefix(data, []byte("\x7fELF")) {
		return 0o755
	}
	return 0o644
}

// writableDir returns the writable path that contains p, a path of the sandbox.
func (s *Scratch) writableDir(p string) (w Dir, rest string, ok bool) {
	if path.Clean(p) != p {
		return w, "", false
	}
	for _, w := range s.Dirs {
		if rest, ok := strings.CutPrefix(p, w.Path+"/"); ok {
			return w, rest, true
		}
	}
	return w, "", false
}

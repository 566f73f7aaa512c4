package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// accountsMost is the largest account file of an image that is extended, in bytes.
const accountsMost = 1 << 20

// An account file has one entry per line, with fields separated by colons. The third field is the
// numeric id.
type accountFile struct {
	path  string
	id    int
	entry string // of the user or group of programs
}

var accountFiles = []accountFile{
	{"etc/passwd", sandbox.ProgramUID, fmt.Sprintf("%s:x:%d:%d:%[1]s:/workspace:/bin/sh", sandbox.UserName, sandbox.ProgramUID, sandbox.ProgramGID)},
	{"etc/group", sandbox.ProgramGID, fmt.Sprintf("%s:x:%d:", sandbox.UserName, sandbox.ProgramGID)},
}

// addAccounts adds entries for the user and the group of programs to the account files below root,
// so that getpwuid, whoami and getpass find them. It keeps existing entries for the same id, and
// files that cannot be extended, such as a pipe.
func addAccounts(root string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range accountFiles {
		if err := f.extend(r); err != nil {
			return fmt.Errorf("add an account to /%s: %w", f.path, err)
		}
	}
	return nil
}

func (f accountFile) extend(r *os.Root) error {
	text, mode, err := readAccounts(r, f.path)
	if err != nil {
		return nil //nolint:nilerr // programs of such an image have a USER variable only
	}
	if nameOf(text, f.id) != "" {
		return nil
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := r.MkdirAll(path.Dir(f.path), 0o755); err != nil {
		return nil //nolint:nilerr // as above
	}
	if err := r.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be a link
		return err
	}
	out, err := r.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = out.WriteString(text + f.entry + "\n")
	return errors.Join(err, out.Close(), r.Chmod(f.path, mode))
}

// readAccounts returns the content of an account file, and the mode for its replacement. A missing
// file is empty. A link that leads out of the image is an error.
func readAccounts(r *os.Root, name string) (text string, mode os.FileMode, err error) {
	if target, err := r.Readlink(name); err == nil && path.IsAbs(target) { // os.Root does not follow it
		name = strings.TrimPrefix(path.Clean(target), "/")
	}
	in, err := r.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0o644, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > accountsMost {
		return "", 0, fmt.Errorf("/%s is not a regular file of at most %d bytes", name, accountsMost)
	}
	b, err := io.ReadAll(io.LimitReader(in, accountsMost))
	return string(b), info.Mode().Perm() | 0o444, err
}

// nameOf returns the name of the first entry with an id, or "".
func nameOf(text string, id int) string {
	for line := range strings.Lines(text) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) > 2 && fields[2] == strconv.Itoa(id) {
			return fields[0]
		}
	}
	return ""
}

// userName returns the name of the programs' user in the root file system at dir.
func userName(dir string) string {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return sandbox.UserName
	}
	defer r.Close()
	text, _, err := readAccounts(r, accountFiles[0].path)
	if err != nil {
		return sandbox.UserName
	}
	if name := nameOf(text, sandbox.ProgramUID); name != "" {
		return name
	}
	return sandbox.UserName
}

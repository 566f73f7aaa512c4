// Package files reads and changes the files of a sandbox, as a program in the sandbox.
//
// The worker starts "guest file REQUEST" as one of the sandbox's users: see package processes. So the
// kernel applies the rights of this user, and no path can lead out of the sandbox. The request is a
// Request in JSON. Relative paths start at the working directory.
//
// The program writes its result to standard output: the data for Read and Pack, otherwise JSON. Write
// and Unpack read data from standard input. A failed program has exit code 1, and a Failure in JSON
// on standard error.
package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Op is an operation.
type Op string

// The operations.
const (
	Stat    Op = "stat"   // describe Path: an Entry
	List    Op = "list"   // describe what the directory Path has: Entries
	MakeDir Op = "mkdir"  // create the directory Path and the missing ones above it: an Entry
	Remove  Op = "remove" // remove Path and everything below it
	Move    Op = "move"   // move Path to To, which it replaces unless that is a directory: an Entry
	Read    Op = "read"   // the bytes of the file Path, from Offset, at most Length
	Write   Op = "write"  // replace the file Path by the input at once; missing directories are created: an Entry
	Append  Op = "append" // append the input to the file Path: an Entry
	Pack    Op = "pack"   // the file or directory Path as a tar archive
	Unpack  Op = "unpack" // extract the tar archive of the input into the directory Path: an Entry
)

// Request is what to do.
type Request struct {
	Op     Op          `json:"op"`
	Path   string      `json:"path"`
	To     string      `json:"to,omitempty"`
	Offset int64       `json:"offset,omitempty"`
	Length int64       `json:"length,omitempty"` // of Read, in bytes; 0: to the end
	Mode   fs.FileMode `json:"mode,omitempty"`   // permissions of a new file or directory; 0: 0644 or 0755
	Depth  int         `json:"depth,omitempty"`  // of List: levels below Path; 0: 1
	Limit  int         `json:"limit,omitempty"`  // of List: the most entries; 0: MaxEntries
}

// MaxEntries is the most entries of a list.
const MaxEntries = 10_000

// Entry describes a file.
type Entry struct {
	Name     string      `json:"name"`
	Path     string      `json:"path"` // absolute
	Type     string      `json:"type"` // file, directory, link or other
	Size     int64       `json:"size"` // in bytes
	Mode     fs.FileMode `json:"mode"` // permissions
	UID      uint32      `json:"uid"`
	GID      uint32      `json:"gid"`
	Modified time.Time   `json:"modified"`
	Target   string      `json:"target,omitempty"` // of a link
}

// Entries are a directory's entries in the order of their paths.
type Entries struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more,omitempty"` // there are more than the limit
}

// Failure is why an operation failed.
type Failure struct {
	Reason  string `json:"reason"` // not_found, exists, denied, not_directory, is_directory, full, invalid or failed
	Message string `json:"message"`
}

func (f *Failure) Error() string { return f.Message }

// Main runs the operation of a request in JSON and returns the exit code.
func Main(request string, in io.Reader, out, errs io.Writer) int {
	var r Request
	err := json.Unmarshal([]byte(request), &r)
	if err == nil {
		err = Run(r, in, out)
	} else {
		err = &Failure{"invalid", "not a request: " + err.Error()}
	}
	if err == nil {
		return 0
	}
	_ = json.NewEncoder(errs).Encode(failureOf(err))
	return 1
}

// Run runs an operation. Its error is, or becomes by failureOf, a Failure.
func Run(r Request, in io.Reader, out io.Writer) error {
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return err
	}
	if r.Path == "" {
		return &Failure{"invalid", "path is missing"}
	}
	switch r.Op {
	case Stat:
	case List:
		return list(path, r, out)
	case MakeDir:
		err = os.MkdirAll(path, mode(r.Mode, 0o755))
	case Remove:
		return remove(path)
	case Move:
		return move(path, r.To, out)
	case Read:
		return read(path, r, out)
	case Write:
		err = write(path, r.Mode, in)
	case Append:
		err = appendTo(path, r.Mode, in)
	case Pack:
		return pack(path, out)
	case Unpack:
		err = unpack(path, in)
	default:
		return &Failure{"invalid", fmt.Sprintf("the operation %q does not exist", r.Op)}
	}
	if err != nil {
		return err
	}
	return describe(path, out)
}

func mode(asked, otherwise fs.FileMode) fs.FileMode {
	if asked.Perm() != 0 {
		return asked.Perm()
	}
	return otherwise
}

// describe writes the entry of a path.
func describe(path string, out io.Writer) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(entryOf(path, info))
}

func entryOf(path string, info fs.FileInfo) Entry {
	e := Entry{Name: filepath.Base(path), Path: path, Type: "other", Size: info.Size(), Mode: info.Mode().Perm(), Modified: info.ModTime().UTC()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		e.UID, e.GID = s.Uid, s.Gid
	}
	switch info.Mode().Type() {
	case 0:
		e.Type = "file"
	case fs.ModeDir:
		e.Type = "directory"
	case fs.ModeSymlink:
		e.Type = "link"
		e.Target, _ = os.Readlink(path)
	}
	return e
}

// list writes the entries below a directory. It leaves out what vanishes and does not enter what the
// user may not read.
func list(path string, r Request, out io.Writer) error {
	if info, err := os.Stat(path); err != nil {
		return err
	} else if !info.IsDir() {
		return &Failure{"not_directory", fmt.Sprintf("%s is not a directory", path)}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	limit := MaxEntries
	if r.Limit > 0 {
		limit = min(limit, r.Limit)
	}
	found := Entries{Entries: []Entry{}}
	depth := max(r.Depth, 1)
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if at == path {
			return err
		}
		if err != nil {
			return nil // it was listed when it was found
		}
		if len(found.Entries) == limit {
			found.More = true
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		found.Entries = append(found.Entries, entryOf(at, info))
		if d.IsDir() && level(path, at) >= depth {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(found)
}

// level returns how many levels a path is below a directory.
func level(dir, path string) (n int) {
	for ; path != dir; path = filepath.Dir(path) {
		n++
	}
	return n
}

func remove(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

func move(path, to string, out io.Writer) error {
	if to == "" {
		return &Failure{"invalid", "to is missing"}
	}
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Rename(path, to); err != nil {
		return err
	}
	return describe(to, out)
}

// read writes a part of a file.
func read(path string, r Request, out io.Writer) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return &Failure{"is_directory", fmt.Sprintf("%s is a directory", path)}
	case r.Offset < 0 || r.Length < 0:
		return &Failure{"invalid", "offset and length must not be negative"}
	case r.Offset > 0:
		if _, err := f.Seek(r.Offset, io.SeekStart); err != nil {
			return err
		}
	}
	var from io.Reader = f
	if r.Length > 0 {
		from = io.LimitReader(f, r.Length)
	}
	_, err = io.Copy(out, from)
	return err
}

// write replaces a file by the input. Readers see the old file or the new one. A file keeps its owner
// and permissions, and a link its place: the file that it leads to is replaced. If the user may not
// create files in the directory, an existing file is overwritten in place.
func write(path string, asked fs.FileMode, in io.Reader) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	perm := mode(asked, 0o644)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &Failure{"is_directory", fmt.Sprintf("%s is a directory", path)}
	case err == nil && !info.Mode().IsRegular(): // a device or a pipe
		return appendTo(path, asked, in)
	case err == nil && asked == 0:
		perm = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".assay-*")
	if err != nil && info != nil { // a file that the user may write, in a directory that the user may not
		return overwrite(path, in)
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, in)
	if info != nil { // the owner stays the same if this user may say so
		old := entryOf(path, info)
		_ = f.Chown(int(old.UID), int(old.GID))
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// overwrite replaces the content of a file. Readers may see a part.
func overwrite(path string, in io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}

func appendTo(path string, asked fs.FileMode, in io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, mode(asked, 0o644))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}

// failureOf returns the description of an error.
func failureOf(err error) *Failure {
	if f := new(Failure); errors.As(err, &f) {
		return f
	}
	reason := "failed"
	for _, x := range []struct {
		err    error
		reason string
	}{
		{fs.ErrNotExist, "not_found"}, {syscall.ENOTEMPTY, "exists"}, {fs.ErrExist, "exists"}, {fs.ErrPermission, "denied"}, {syscall.EROFS, "denied"},
		{syscall.ENOTDIR, "not_directory"}, {syscall.EISDIR, "is_directory"}, {syscall.ENOSPC, "full"}, {syscall.EDQUOT, "full"},
		{syscall.EINVAL, "invalid"}, {syscall.ENAMETOOLONG, "invalid"}, {syscall.ELOOP, "invalid"},
	} {
		if errors.Is(err, x.err) {
			reason = x.reason
			break
		}
	}
	return &Failure{reason, err.Error()}
}

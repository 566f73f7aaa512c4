package cgroup

import (
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// fileCache keeps control files open between uses, because opening is half the cost of reading a meter.
// Its zero value keeps nothing. It is safe for concurrent use, because a meter is read while a
// program is being killed. Only keep, forget and close need exclusive use.
type fileCache struct {
	mu    sync.Mutex
	files map[string]int // by path; nil: keep nothing; -1: the file does not exist
}

// keep starts to keep files open.
func (k *fileCache) keep() {
	if k.files == nil {
		k.files = map[string]int{}
	}
}

// open returns a descriptor of file. The caller closes it if nothing is kept.
func (k *fileCache) open(file string) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if fd, ok := k.files[file]; ok {
		if fd < 0 {
			return -1, unix.ENOENT
		}
		return fd, nil
	}
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	switch {
	case k.files == nil:
	case err == nil:
		k.files[file] = fd
	case errors.Is(err, unix.ENOENT):
		k.files[file] = -1
	}
	return fd, err
}

func (k *fileCache) read(file string) (string, error) {
	if k.files == nil {
		return read(file)
	}
	fd, err := k.open(file)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: file, Err: err}
	}
	var buf [4096]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return "", &os.PathError{Op: "read", Path: file, Err: err}
	}
	return string(buf[:n]), nil
}

func (k *fileCache) writeInt(file string, n int64) error {
	if k.files == nil {
		return writeInt(file, n)
	}
	value := strconv.FormatInt(n, 10)
	fd, err := k.open(file)
	if err == nil {
		err = put(fd, value)
	}
	if err != nil {
		return &os.PathError{Op: "write " + value + " to", Path: file, Err: err}
	}
	return nil
}

func (k *fileCache) readInt(file string) (int64, error) {
	text, err := k.read(file)
	if err != nil {
		return 0, err
	}
	return parseInt(file, text)
}

func (k *fileCache) readKey(file, key string) (int64, error) {
	text, err := k.read(file)
	if err != nil {
		return 0, err
	}
	return parseKey(file, key, text)
}

func (k *fileCache) exists(file string) bool {
	if k.files == nil {
		_, err := os.Stat(file)
		return err == nil
	}
	_, err := k.open(file)
	return err == nil
}

// forget closes the kept files below dir.
func (k *fileCache) forget(dir string) {
	for file, fd := range k.files {
		if len(file) > len(dir) && file[:len(dir)] == dir && file[len(dir)] == '/' {
			delete(k.files, file)
			_ = unix.Close(fd)
		}
	}
}

// close closes everything and keeps nothing from now on.
func (k *fileCache) close() {
	for _, fd := range k.files {
		_ = unix.Close(fd)
	}
	k.files = nil
}

package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// The path of a unix socket is limited to 107 bytes. This part is reserved for the name that a
// component appends to its directory.
const (
	maxSocketPath     = 107
	reservedForSocket = 24 // "/containerd.sock.ttrpc", "/.s.PGSQL.5432.lock"
)

// SocketDir returns a directory for name's sockets: dir/name if that is short enough, otherwise a
// fixed directory for dir in the system's temporary directory. It belongs to uid and is closed to
// all other users, because the components trust every client.
func SocketDir(dir, name string, uid int) (string, error) {
	path := socketPath(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("create the socket directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	// In a shared temporary directory, another user may have created it first.
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if !info.IsDir() || (owner != os.Geteuid() && owner != uid) {
		return "", fmt.Errorf("socket directory %s belongs to another user (uid %d); remove it", path, owner)
	}
	if owner != uid {
		if err := os.Lchown(path, uid, -1); err != nil {
			return "", fmt.Errorf("socket directory: %w", err)
		}
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	return path, nil
}

func socketPath(dir, name string) string {
	path := filepath.Join(dir, name)
	if len(path)+reservedForSocket > maxSocketPath {
		sum := sha256.Sum256([]byte(path))
		path = filepath.Join(os.TempDir(), "assay-"+name+"-"+hex.EncodeToString(sum[:6]))
	}
	return path
}

package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A unix socket's path may have 107 bytes. What a component appends to its directory gets reserved from that.
const (
	maxSocketPath     = 107
	reservedForSocket = 24 // "/containerd.sock.ttrpc", "/.s.PGSQL.5432.lock"
)

// SocketDir returns a directory for name's sockets: dir/name if that is short enough, else one in the system's temporary
// directory that is always the same for dir. It belongs to uid and is closed to everybody else, because the components
// trust whoever can connect.
func SocketDir(dir, name string, uid int) (string, error) {
	path := socketPath(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("create the socket directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	// In a shared temporary directory somebody else may have been there first.
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if !info.IsDir() || (owner != os.Geteuid() && owner != uid) {
		return "", fmt.Errorf("socket directory %s belongs to somebody else (uid %d); remove it", path, owner)
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

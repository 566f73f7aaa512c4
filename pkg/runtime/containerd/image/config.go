package image

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// workingDir returns the directory of an image's configuration, if it exists below rootfs and the
// unprivileged program may enter it. Other engines create a missing directory, but an image that
// only names it has no content there.
func workingDir(rootfs, dir string) string {
	if dir = path.Clean(dir); !path.IsAbs(dir) || dir == "/" {
		return ""
	}
	root, err := os.Open(rootfs)
	if err != nil {
		return ""
	}
	defer root.Close()
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		fd, err := unix.Openat2(int(root.Fd()), strings.TrimPrefix(dir[:i], "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return ""
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd)
		if err != nil || st.Mode&0o001 == 0 {
			return ""
		}
	}
	return dir
}

// userNote notes that programs do not run as the image's user. Images with the user root are usual
// and get no note.
func (img *Image) userNote() string {
	switch user, _, _ := strings.Cut(img.User, ":"); user {
	case "", "root", "0":
		return ""
	default:
		return fmt.Sprintf("the image's user %.80q is not used: programs are user %d of their sandbox", user, sandbox.ProgramUID)
	}
}

// SandboxImage returns the properties of img for programs.
func (img *Image) SandboxImage() sandbox.Image {
	return sandbox.Image{Digest: img.Digest, Env: img.Env, Login: img.Login, Dir: img.Dir, Note: img.userNote(), Packages: img.Packages}
}

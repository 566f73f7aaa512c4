// Package overlay shows the layers of an image as file systems of their own: to each sandbox
// a view with inodes that no other has, and to a program that writes over a directory of the
// image its own copy of that, in its scratch. It knows directories and mounts, and nothing
// of images but what lies in them.
//
// It fails where the kernel or the file system of the layers cannot do it, with
// job.ErrInvalid if the job could do without.
package overlay

import (
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
)

// LowerDirs returns what a read-only mount shows, the top first, as overlay wants
// it; nil if it is not made of directories.
func LowerDirs(mounts []mount.Mount) []string {
	if len(mounts) != 1 {
		return nil
	}
	if mounts[0].Type == "bind" {
		return []string{Escape(mounts[0].Source)}
	}
	for _, o := range mounts[0].Options {
		if list, ok := strings.CutPrefix(o, "lowerdir="); ok {
			return strings.Split(list, ":")
		}
	}
	return nil
}

// Escape writes a path as options of overlay have it.
func Escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// Unescape reads a path as options of overlay have it.
func Unescape(path string) string {
	return strings.NewReplacer(`\\`, `\`, `\:`, `:`, `\,`, `,`).Replace(path)
}

// Package overlay mounts the layers of an image as separate file systems: for each sandbox a view
// with unique inodes, and for a program that writes to a directory of the image a copy-on-write
// copy in its scratch. It handles directories and mounts only.
//
// If the kernel or the layers' file system lacks support, it fails. The error is job.ErrInvalid if
// the job could do without.
package overlay

import (
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
)

// LowerDirs returns the directories of a read-only mount for overlay, top first, or nil if it does
// not consist of directories.
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

// Escape escapes a path for overlay's options.
func Escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// Unescape reads a path in overlay's options.
func Unescape(path string) string {
	return strings.NewReplacer(`\\`, `\`, `\:`, `:`, `\,`, `,`).Replace(path)
}

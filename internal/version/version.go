// Package version identifies the build of the programs.
package version

import "runtime/debug"

// release is set by the linker of a release build: -X …/internal/version.release=v1.2.3.
var release string

// Revision is the commit that the toolchain stamped into the program, with a mark for uncommitted
// changes. It is "unknown" for a build outside a repository.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changes := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "+changes"
		}
	}
	return revision + changes
}

// String is the release, or else the revision, or else "devel".
func String() string {
	if release != "" {
		return release
	}
	if r := Revision(); r != "unknown" {
		return r
	}
	return "devel"
}

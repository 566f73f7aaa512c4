// Package version identifies the build of the programs.
package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// number is the content of VERSION, the only place of the project's version. A test in internal/arch compares the
// OpenAPI document, the Helm chart and the Python packages with it.
//
//go:embed VERSION
var number string

// release is set by the linker of a release build: -X …/internal/version.release=v1.2.3.
var release string

// revision is set by the linker of a build without the repository's metadata.
var revision string

// Number returns the version of these sources without a prefix, such as 0.1.0.
func Number() string { return strings.TrimSpace(number) }

// Revision is the commit that the linker or the toolchain stamped into the program, with a mark for uncommitted
// changes. It is "unknown" for a build outside a repository.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case revision != "":
		return revision
	case !ok:
		return "unknown"
	}
	commit, changes := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "-changes"
		}
	}
	return commit + changes
}

// String returns the release, such as v0.1.0. Other builds have a semantic version that sorts before it, and their
// revision if it is known: v0.1.0-dev+0123456789ab.
func String() string {
	if release != "" {
		return release
	}
	dev := "v" + Number() + "-dev"
	if r := Revision(); r != "unknown" {
		return dev + "+" + r
	}
	return dev
}

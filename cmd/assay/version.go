package main

import (
	"runtime/debug"

	"github.com/assay-run/assay/internal/version"
)

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	v := thisVersion()
	if a.JSON {
		return a.printJSON(v)
	}
	a.printf("assay %s (%s, %s)\n", v.Version, v.Revision, v.Go)
	return nil
}

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// thisVersion returns the version stamped into the program.
func thisVersion() versionInfo {
	out := versionInfo{Version: version.String(), Revision: version.Revision()}
	if info, ok := debug.ReadBuildInfo(); ok {
		out.Go = info.GoVersion
	}
	return out
}

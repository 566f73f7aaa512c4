package main

import "runtime/debug"

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	v := version()
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

// version is what the toolchain stamped into the binary.
func version() versionInfo {
	out := versionInfo{Version: "devel", Revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	out.Go = info.GoVersion
	if v := info.Main.Version; v != "" && v != "(devel)" {
		out.Version = v
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	out.Revision += dirty
	return out
}

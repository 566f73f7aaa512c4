package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// program is a program that a fleet needs.
type program struct {
	name     string
	args     []string // arguments that print the version
	dirs     []string // patterns of other directories than PATH; the last match is used
	optional bool
	advice   string
}

var programs = []program{
	{name: "containerd", args: []string{"--version"}, advice: "apt-get install containerd"},
	{name: "containerd-shim-runc-v2", args: []string{"-v"}, advice: "apt-get install containerd"},
	{name: "runc", args: []string{"--version"}, advice: "apt-get install runc"},
	{name: "ctr", args: []string{"--version"}, advice: "apt-get install containerd"},
	{name: "postgres", args: []string{"--version"}, dirs: []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"},
		optional: true, advice: "apt-get install postgresql (only assay dev needs it here)"},
}

// version matches the first dotted number.
var version = regexp.MustCompile(`\d+\.\d+[^\s,)]*`)

func (p program) find(ctx context.Context) Finding {
	path, err := exec.LookPath(p.name)
	if err != nil {
		path = p.elsewhere()
	}
	if path == "" {
		level := Missing
		if p.optional {
			level = Limited
		}
		return Finding{p.name, level, "not installed", p.advice}
	}
	out, err := exec.CommandContext(ctx, path, p.args...).CombinedOutput()
	v := version.FindString(string(out))
	if err != nil || v == "" {
		return Finding{p.name, Limited, fmt.Sprintf("%s does not say its version: %s", path, firstLine(out)), p.advice}
	}
	return ok(p.name, v+" at "+path)
}

func (p program) elsewhere() string {
	var found []string
	for _, dir := range p.dirs {
		m, _ := filepath.Glob(filepath.Join(dir, p.name)) // an error means a bad pattern, and there are none here
		found = append(found, m...)
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

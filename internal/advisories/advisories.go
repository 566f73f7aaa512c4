// Package advisories lists known vulnerabilities of sandbox components and finds those of a host:
// in its kernel and in the programs that make containers.
//
// The list is a table in the source tree and is as old as the tree. A distribution fixes old
// versions without new version numbers. If the change log of its package is installed, a
// vulnerability that it names counts as fixed.
package advisories

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hole is a known vulnerability.
type Hole struct {
	Program string   // kernel, runc, containerd or runsc
	ID      string   // the CVE number
	What    string   // what code in a sandbox can do
	Fixed   []string // the first fixed version of each branch, the lowest first
	Since   string   // the first affected version; empty: all older versions are affected
	Source  string
}

// Finding is a vulnerability of this host.
type Finding struct {
	Hole
	Version string // of the program
	Logged  bool   // the package has a change log, and it does not name the vulnerability
}

// String returns a line for logs.
func (f Finding) String() string {
	s := fmt.Sprintf("%s %s is older than %s, which closes %s (%s)", f.Program, f.Version, strings.Join(f.Fixed, " or "), f.ID, f.What)
	if !f.Logged {
		s += "; your distribution may have patched it"
	}
	return s
}

// Open returns the vulnerabilities of a version of a program. changelog is the change log of its
// package, or empty.
func Open(program, version, changelog string) (open []Finding) {
	have, ok := parse(version)
	if !ok {
		return nil
	}
	for _, h := range holes {
		if h.Program == program && h.in(have) && !strings.Contains(changelog, h.ID) {
			open = append(open, Finding{Hole: h, Version: version, Logged: changelog != ""})
		}
	}
	return open
}

// in reports whether a version has the vulnerability. The first two numbers name a branch. An
// unlisted branch is affected if a newer branch is listed (it is no longer maintained), and
// unaffected if all listed branches are older.
func (h *Hole) in(have number) bool {
	if since, ok := parse(h.Since); ok && slices.Compare(have[:], since[:]) < 0 {
		return false
	}
	newest := number{}
	for _, f := range h.Fixed {
		fixed, _ := parse(f)
		if fixed[0] == have[0] && fixed[1] == have[1] {
			return slices.Compare(have[:], fixed[:]) < 0
		}
		if slices.Compare(fixed[:], newest[:]) > 0 {
			newest = fixed
		}
	}
	return slices.Compare(have[:], newest[:]) < 0
}

// number is a version: major, minor, patch. gVisor names its releases after days; for them it is
// the day.
type number [3]int

// module matches the version that Go gives to a commit without a version of its own. The day is the
// day of the commit.
var module = regexp.MustCompile(`^v0\.0\.0-(\d{8})\d{6}-`)

// parse reads the leading numbers of a version and ignores the suffix of a distribution. It reports
// whether there were any.
func parse(version string) (n number, ok bool) {
	if m := module.FindStringSubmatch(version); m != nil {
		version = m[1]
	}
	version = strings.TrimPrefix(strings.TrimPrefix(version, "release-"), "v")
	for i := range n {
		end := 0
		for end < len(version) && version[end] >= '0' && version[end] <= '9' {
			end++
		}
		v, err := strconv.Atoi(version[:end])
		if err != nil {
			return n, i > 0
		}
		n[i] = v
		if end == len(version) || version[end] != '.' {
			return n, true
		}
		version = version[end+1:]
	}
	return n, true
}

// Sorted orders vulnerabilities by program and ID.
func Sorted(found []Finding) []Finding {
	slices.SortFunc(found, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Program, b.Program), cmp.Compare(a.ID, b.ID)) })
	return found
}

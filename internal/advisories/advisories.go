// Package advisories knows holes in what walls are made of, and says which of them
// a host has: in its kernel, and in the programs that make containers.
//
// It is a table in the tree, and as old as the tree is. A distribution repairs old
// versions without giving them new numbers; where the change log of its package is
// installed, a hole that it names counts as closed.
package advisories

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hole is one that is known.
type Hole struct {
	Program string   // kernel, runc, containerd or runsc
	ID      string   // the CVE's
	What    string   // what somebody inside can do
	Fixed   []string // the first version of each branch that is without it, the lowest first
	Since   string   // the first version that has it; empty: all that are older
	Source  string
}

// Found is a hole of this host.
type Found struct {
	Hole
	Version string // of the program
	Logged  bool   // there is a change log of the package, and it does not name the hole
}

// String returns one line about it, for logs.
func (f Found) String() string {
	s := fmt.Sprintf("%s %s is older than %s, which closes %s (%s)", f.Program, f.Version, strings.Join(f.Fixed, " or "), f.ID, f.What)
	if !f.Logged {
		s += "; your distribution may have patched it"
	}
	return s
}

// Open returns the holes that a version of a program has. changelog is that of its
// package, empty if there is none.
func Open(program, version, changelog string) (open []Found) {
	have, ok := parse(version)
	if !ok {
		return nil
	}
	for _, h := range holes {
		if h.Program == program && h.in(have) && !strings.Contains(changelog, h.ID) {
			open = append(open, Found{Hole: h, Version: version, Logged: changelog != ""})
		}
	}
	return open
}

// in reports whether a version has the hole. A branch, which is what the first two
// numbers name, of which no version is listed has been given up if there is a newer
// one, and came after the hole if all are older.
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

// number is a version: major, minor, patch. Of gVisor's releases, which are named
// after days, it is the day.
type number [3]int

// module is the version that Go gives to a commit without one of its own; the day is
// that of the commit.
var module = regexp.MustCompile(`^v0\.0\.0-(\d{8})\d{6}-`)

// parse reads the leading numbers of a version; what a distribution appends is
// ignored. It reports whether there were any.
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

// Sorted orders what was found for people: by program and hole.
func Sorted(found []Found) []Found {
	slices.SortFunc(found, func(a, b Found) int { return cmp.Or(cmp.Compare(a.Program, b.Program), cmp.Compare(a.ID, b.ID)) })
	return found
}

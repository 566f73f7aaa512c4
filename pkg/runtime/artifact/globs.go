package artifact

import (
	"path"
	"slices"
	"strings"
)

// globs are patterns, split into parts. A policy limits the parts of a pattern.
type globs [][]string

// maxParts is the most parts of a pattern, one bit each. No collected file is as deep.
const maxParts = 127

// position is the progress in one pattern: bit i of the set means that part i is the next to match.
type position struct {
	glob int
	set  [2]uint64
}

func (p *position) add(part int)      { p.set[part/64] |= 1 << (part % 64) }
func (p *position) has(part int) bool { return p.set[part/64]&(1<<(part%64)) != 0 }

// compile splits patterns into parts. It merges consecutive **. A pattern with too many parts
// matches nothing.
func compile(patterns []string) globs {
	all := make(globs, len(patterns))
	for i, p := range patterns {
		parts := strings.Split(strings.Trim(p, "/"), "/")
		parts = slices.CompactFunc(parts, func(a, b string) bool { return a == "**" && b == "**" })
		if len(parts) <= maxParts {
			all[i] = parts
		}
	}
	return all
}

// start returns the position before the first part of each pattern.
func (g globs) start() []position {
	var live []position
	for i, parts := range g {
		if len(parts) > 0 {
			p := position{glob: i}
			p.add(0)
			live = append(live, p)
		}
	}
	return live
}

// advance returns the positions after one more component of a path. It drops patterns that cannot
// match any more.
func (g globs) advance(live []position, name string) []position {
	var next []position
	for _, at := range live {
		parts, to := g[at.glob], position{glob: at.glob}
		for i := range parts {
			if !at.has(i) {
				continue
			}
			if parts[i] == "**" { // matches any number of components
				to.add(i)
				at.add(i + 1)
			} else if ok, err := path.Match(parts[i], name); ok && err == nil {
				to.add(i + 1)
			}
		}
		if to.set != [2]uint64{} {
			next = append(next, to)
		}
	}
	return next
}

// complete reports whether a pattern has matched completely. A trailing ** matches any file.
func (g globs) complete(p position) bool {
	n := len(g[p.glob])
	return p.has(n) || p.has(n-1) && g[p.glob][n-1] == "**"
}

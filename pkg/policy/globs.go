package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Limits of artifacts.paths. A worker matches the globs with each file of a job.
const (
	maxGlobs     = 32 // patterns with wildcards; other paths name single files
	maxGlobParts = 16 // components of such a pattern
	maxGlobStars = 2  // number of ** in it; adjacent ones count as one
	maxPathParts = 64 // components of a path without wildcards
)

func badGlob(p string) string {
	if bad := badPath(p); bad != "" {
		return bad
	}
	if _, err := path.Match(p, ""); err != nil {
		return "is not a glob such as /workspace/out/**/*.png"
	}
	parts := slices.CompactFunc(strings.Split(p[1:], "/"), func(a, b string) bool { return a == "**" && b == "**" })
	most := maxPathParts
	if isGlob(p) {
		most = maxGlobParts
	}
	stars := 0
	for _, part := range parts {
		if part == "**" {
			stars++
		}
	}
	switch {
	case len(parts) > most:
		return fmt.Sprintf("has %d parts; at most %d", len(parts), most)
	case stars > maxGlobStars:
		return fmt.Sprintf("has ** %d times; at most %d times", stars, maxGlobStars)
	}
	return ""
}

func isGlob(p string) bool { return strings.ContainsAny(p, `*?[\`) }

// validateGlobs checks the number of patterns.
func (p *Policy) validateGlobs() error {
	n := 0
	for i, g := range p.Artifacts.Paths {
		if !isGlob(g) {
			continue
		}
		if n++; n > maxGlobs {
			return job.Invalid(fmt.Sprintf("policy.artifacts.paths[%d]", i), "%.80q exceeds the limit of %d patterns with wildcards; name a directory, such as /workspace/out/**", g, maxGlobs)
		}
	}
	return nil
}

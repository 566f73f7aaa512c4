package doctor

import (
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// judgePrivileges reports the privileges that a worker would lack here, for example in this
// container, and the features that each one disables.
func judgePrivileges(all []hostcheck.Privilege) Finding {
	const check = "privileges"
	level := Limited
	var names, lacks, advice []string
	for _, p := range all {
		names = append(names, p.Name)
		if p.Lacks == nil {
			continue
		}
		levels := make([]string, len(p.Levels))
		for i, l := range p.Levels {
			levels[i] = string(l)
		}
		lacks = append(lacks, p.Name)
		text := fmt.Sprintf("%s: %v", p.Name, p.Lacks)
		if len(levels) > 0 {
			level, text = Missing, text+" (without it there is no "+strings.Join(levels, ", ")+")"
		}
		advice = append(advice, text)
	}
	if len(lacks) == 0 {
		return ok(check, strings.Join(names, ", "))
	}
	return Finding{check, level, "no " + strings.Join(lacks, ", "), strings.Join(advice, "; ")}
}

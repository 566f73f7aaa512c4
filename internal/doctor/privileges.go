package doctor

import (
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/runtime/containerd"
)

// judgePrivileges says which privileges a worker would lack here, in this container say,
// and what is not offered for want of each.
func judgePrivileges(all []containerd.Privilege) Finding {
	const check = "privileges"
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
		advice = append(advice, fmt.Sprintf("%s: %v (without it there is no %s)", p.Name, p.Lacks, strings.Join(levels, ", ")))
	}
	if len(lacks) == 0 {
		return ok(check, strings.Join(names, ", "))
	}
	return Finding{check, Missing, "no " + strings.Join(lacks, ", "), strings.Join(advice, "; ")}
}

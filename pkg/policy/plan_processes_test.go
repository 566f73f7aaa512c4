package policy

import (
	"strings"
	"testing"
)

// No policy takes more processes than the host leaves to one job, whoever enforces.
func TestProcessesOfAHost(t *testing.T) {
	t.Parallel()
	h := Host{Isolations: []Isolation{Cell, Task}, CgroupV2: true, Processes: 4096}
	for n, refused := range map[int]bool{64: false, 4096: false, 4097: true, 32768: true} {
		p := Default()
		p.Processes = n
		_, err := p.Plan(h)
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "policy.processes") {
			t.Errorf("%d processes: %v", n, err)
		}
	}
}

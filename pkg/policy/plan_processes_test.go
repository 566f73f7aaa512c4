package policy

import (
	"errors"
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

// Nor more descriptors than the worker has to give, and a policy that is too much in
// two ways is told both.
func TestOpenFilesOfAHost(t *testing.T) {
	t.Parallel()
	h := Host{Isolations: []Isolation{Cell, Task}, Processes: 64, OpenFiles: 4096}
	for n, refused := range map[int]bool{256: false, 4096: false, 4097: true} {
		p := Default()
		p.OpenFiles = n
		_, err := p.Plan(h)
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "policy.open_files: at most 4096 here") {
			t.Errorf("%d open files: %v", n, err)
		}
	}
	p := Default()
	p.OpenFiles, p.Processes = 5000, 65
	var refusal *Refusal
	if _, err := p.Plan(h); !errors.As(err, &refusal) || len(refusal.Fields) != 2 {
		t.Errorf("too much of both: %v", err)
	}
}

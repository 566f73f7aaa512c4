package policy

import (
	"errors"
	"strings"
	"testing"
)

// TestProcessesOfAHost checks that no policy takes more processes than the host leaves to one job, under any
// enforcement.
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

// TestOpenFilesOfAHost checks that no policy takes more descriptors than the worker can give. A policy that
// exceeds both limits gets both errors.
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

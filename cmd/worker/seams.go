//go:build faults

package main

import (
	"fmt"
	"log/slog"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// seams has settings for tests and measurements without programs.
type seams struct {
	Runtime       string `name:"runtime" env:"ASSAY_RUNTIME" enum:"containerd,noop,scripted" default:"containerd" help:"Runtime: containerd; noop to run nothing and measure the rest; or scripted to follow the \"# fake:\" comments of a job's code."`
	MemoryReserve string `name:"memory-reserve" env:"ASSAY_MEMORY_RESERVE" placeholder:"SIZE" help:"With noop or scripted: stop taking jobs while this host has less memory available than this."`
}

// runtime returns a stand-in for containerd, or nil if containerd runs jobs.
func (s seams) runtime() (runtime.Runtime, error) {
	if s.MemoryReserve != "" {
		if _, err := job.ParseSize(s.MemoryReserve); err != nil || s.Runtime == "containerd" {
			return nil, fmt.Errorf("--memory-reserve: %q is not a size, or jobs are run", s.MemoryReserve)
		}
	}
	switch s.Runtime {
	case "noop":
		slog.Warn("runtime noop: jobs succeed without being run")
		return fake.Noop(), nil
	case "scripted":
		slog.Warn("runtime scripted: jobs pretend and are not run")
		return fake.New(nil), nil
	}
	return nil, nil
}

// reserve returns the memory of the host to keep free.
func (s seams) reserve() job.Size {
	if s.MemoryReserve == "" {
		return 0
	}
	size, _ := job.ParseSize(s.MemoryReserve) // already validated
	return size
}

//go:build faults

package main

import (
	"fmt"
	"log/slog"

	"github.com/assay-run/assay/internal/settings"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

var goneSeams settings.Gone // they are here

// seams are settings of tests and measurements, which run no programs.
type seams struct {
	Runtime       string `name:"runtime" env:"ASSAY_RUNTIME" enum:"containerd,noop,scripted" default:"containerd" help:"containerd; or run nothing: noop to measure the rest, scripted to act out what a job's code says after \"# fake:\"."`
	MemoryReserve string `name:"memory-reserve" env:"ASSAY_MEMORY_RESERVE" placeholder:"SIZE" help:"Where nothing is run, take no more jobs while less memory than that is available on this host."`
}

// runtime is what runs nothing in containerd's place, nil where containerd is to run jobs.
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

// reserve is what is to be left of the host's memory.
func (s seams) reserve() job.Size {
	if s.MemoryReserve == "" {
		return 0
	}
	size, _ := job.ParseSize(s.MemoryReserve) // read once before
	return size
}

package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/assay-run/assay/pkg/runtime/toll"
)

// leaveCoresToJobs limits the worker to half of the cores, because its work takes microseconds and
// waking other threads costs more. Only during long work for one job does it use more. The
// operator's environment gives the usual number.
func leaveCoresToJobs() {
	cores := runtime.GOMAXPROCS(0)
	usual := cores
	if os.Getenv("GOMAXPROCS") == "" {
		usual = max(cores/2, 1)
	}
	toll.UseCores(usual, 2*cores) // the kernel divides cores among threads more finely than Go does
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // the heap is some 20 MiB
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(160 << 20) // from here on, collect garbage sooner, so that the heap does not treble
	}
}

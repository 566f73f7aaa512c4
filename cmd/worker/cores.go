package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// leaveCoresToJobs limits the worker to half of the cores, because its work takes microseconds and
// waking other threads costs more. The operator's environment takes precedence.
func leaveCoresToJobs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)/2, 1))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // the heap is some 20 MiB
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(160 << 20) // from here on, collect garbage sooner, so that the heap does not treble
	}
}

package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// leaveCoresToJobs keeps the worker from using more than half of the cores, and
// from waking threads on the others for work of microseconds. What the operator
// says in the environment wins.
func leaveCoresToJobs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)/2, 1))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // the heap is some 20 MiB
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(160 << 20) // from here on, what was dropped goes first: the heap may not treble
	}
}

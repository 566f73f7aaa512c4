//go:build !faults

package main

import (
	"github.com/assay-run/assay/internal/settings"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// seams has no settings without the tag faults.
type seams struct{}

// goneSeams lists settings that only exist with the tag faults.
var goneSeams = settings.Removed{
	"runtime":        "containerd runs jobs; a worker that runs nothing is built with the tag faults (bin/faults/worker)",
	"memory-reserve": "no more jobs are taken while less than a twentieth of the host's memory, at most 1Gi, is available",
}

func (seams) runtime() (runtime.Runtime, error) { return nil, nil }

func (seams) reserve() job.Size { return 0 }

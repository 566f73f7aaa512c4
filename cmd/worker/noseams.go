//go:build !faults

package main

import (
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// seams has no settings without the tag faults.
type seams struct{}

func (seams) runtime() (runtime.Runtime, error) { return nil, nil }

func (seams) reserve() job.Size { return 0 }

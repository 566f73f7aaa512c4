package containerd

import (
	"time"

	"github.com/assay-run/assay/pkg/runtime"
)

var _ runtime.CPUMeter = (*Runtime)(nil)

// CPU implements runtime.CPUMeter.
func (r *Runtime) CPU() (time.Duration, error) { return r.cgroups.CPU(r.Cgroup()) }

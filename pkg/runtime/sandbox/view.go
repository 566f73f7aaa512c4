package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// The resources of the two files for a program's view (guest.CPUOnline) in a scratch, which are not
// the program's.
const (
	viewFiles = 2
	viewSize  = 2 * 4096
)

// View returns the names of the files in a scratch.
func (s *Scratch) View() (cpus, memory string) {
	return filepath.Join(s.Dir, guest.ViewCPUs), filepath.Join(s.Dir, guest.ViewMemory)
}

// show makes programs see this many cores and this memory.
func (s *Scratch) show(cores int, memory job.Size) error {
	if s.cores == cores && s.memory == memory {
		return nil
	}
	if err := WriteView(s.Dir, cores, memory); err != nil {
		return err
	}
	s.cores, s.memory = cores, memory
	return nil
}

// WriteView writes the files guest.ViewCPUs and guest.ViewMemory into a directory.
func WriteView(dir string, cores int, memory job.Size) error {
	online := "0\n"
	if cores > 1 {
		online = fmt.Sprintf("0-%d\n", cores-1)
	}
	kib := int64(memory / job.KiB)
	info := fmt.Sprintf("MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\n"+
		"Buffers:               0 kB\nCached:                0 kB\nSwapCached:            0 kB\n"+
		"SwapTotal:             0 kB\nSwapFree:              0 kB\n", kib, kib, kib)
	err := errors.Join(os.WriteFile(filepath.Join(dir, guest.ViewCPUs), []byte(online), 0o444), os.WriteFile(filepath.Join(dir, guest.ViewMemory), []byte(info), 0o444))
	if err != nil {
		return fmt.Errorf("show the limits: %w", err)
	}
	return nil
}

// showDefaults is show for a slot without a job.
func (s *Scratch) showDefaults() error {
	def := policy.Default()
	return s.show(CoresOf(def.CPU), def.Memory)
}

// CoresOf returns the number of cores shown to a program with this quota.
func CoresOf(cpu float64) int { return min(max(int(math.Ceil(cpu)), 1), runtime.NumCPU()) }

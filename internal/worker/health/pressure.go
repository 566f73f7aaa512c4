package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// PressureLimits are the pressure on a host above which its worker takes no more jobs. Memory and
// IO are the kernel's pressure stall information: the percentage of the last ten seconds in which
// tasks waited for a resource. Zero: no limit. Waiting for cores has no limit: it is normal in a
// fleet that overcommits cores.
type PressureLimits struct {
	Memory float64  // some task waited for memory to be reclaimed
	IO     float64  // all tasks waited for disks
	Keep   job.Size // available memory to leave free

	Proc string // where to read the kernel's state; empty: /proc
}

const (
	lookEvery = time.Second
	// A limit that was exceeded holds until its value has fallen by a quarter, so that the taking
	// of jobs does not flap.
	comeBack = 0.75
)

// reading is one measurement of the host's pressure.
type reading struct {
	cpu, memory, io float64
	available       job.Size
	known           bool // available was read
}

// Pressure holds a worker back while its host is under pressure.
type Pressure struct {
	limits PressureLimits

	mu      sync.Mutex
	last    reading
	why     string        // why the worker is held back; "" if it is not
	short   bool          // short of memory: not even a single job is taken
	changed chan struct{} // closed when why becomes empty or non-empty
}

// NewPressure returns the state of a host without pressure. Run measures it.
func NewPressure(limits PressureLimits) *Pressure {
	limits.Proc = cmp.Or(limits.Proc, "/proc")
	return &Pressure{limits: limits, changed: make(chan struct{})}
}

// Run measures the pressure until ctx ends. It calls turned when the worker is held back, or no
// longer.
func (p *Pressure) Run(ctx context.Context, turned func()) {
	if p.limits == (PressureLimits{Proc: p.limits.Proc}) {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	warned := false
	for {
		now, err := readPSI(p.limits.Proc)
		if err != nil && !warned {
			warned = true
			slog.WarnContext(ctx, "host pressure not readable in full", "error", err)
		}
		if p.note(now) {
			slog.WarnContext(ctx, "host under pressure", "holds_back", p.Why())
			turned()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// note judges a reading, and reports whether the worker is now held back or no longer.
func (p *Pressure) note(now reading) (turned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.why != ""
	p.last = now
	p.why, p.short = p.judge(now, held)
	if turned = held != (p.why != ""); turned {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return turned
}

// judge returns why the pressure is too high. If held, the limits are lower.
func (p *Pressure) judge(s reading, held bool) (why string, short bool) {
	factor := 1.0
	if held {
		factor = comeBack
	}
	for _, c := range []struct {
		effect    string
		is, limit float64
	}{
		{"waiting for memory", s.memory, p.limits.Memory},
		{"waiting for disks", s.io, p.limits.IO},
	} {
		if c.limit > 0 && c.is >= factor*c.limit {
			why = fmt.Sprintf("%s: %.0f%% of the time (limit %.0f%%)", c.effect, c.is, c.limit)
			break
		}
	}
	if s.known && p.limits.Keep > 0 && float64(s.available) < float64(p.limits.Keep)/factor {
		return fmt.Sprintf("short of memory: %d MiB available (limit %d MiB)", s.available/job.MiB, p.limits.Keep/job.MiB), true
	}
	return why, false
}

// Suffers returns why this host is short of memory, or "". starves reports whether the memory is
// almost exhausted: half of the memory that should stay free is in use.
func (p *Pressure) Suffers() (why string, starves bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.short {
		why = p.why
	}
	return why, p.last.known && p.limits.Keep > 0 && p.last.available < p.limits.Keep/2
}

// Why returns why the worker is held back, or "".
func (p *Pressure) Why() string {
	why, _, _ := p.state()
	return why
}

// Stalled returns the percentages of the last ten seconds in which some tasks waited for cores,
// some waited for memory, and all waited for disks.
func (p *Pressure) Stalled() (cpu, memory, io float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.cpu, p.last.memory, p.last.io
}

func (p *Pressure) state() (why string, short bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why, p.short, p.changed
}

// Admit waits until deliveries may be requested. It returns how many at once, and a channel that is
// closed when this may have changed. A slow host without jobs gets one, as its jobs may not be the
// cause.
func (p *Pressure) Admit(ctx context.Context, busy func() int) (most int, changed <-chan struct{}) {
	for {
		why, short, changed := p.state()
		if why == "" {
			return math.MaxInt, changed
		}
		if !short && busy() == 0 || ctx.Err() != nil {
			return 1, changed
		}
		wait := time.NewTimer(lookEvery)
		select {
		case <-changed:
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// readPSI reads the available values. Without pressure stall information in the kernel, only the
// available memory is known.
func readPSI(proc string) (s reading, err error) {
	var errs []error
	stalled := func(resource, kind string) float64 {
		raw, err := os.ReadFile(filepath.Join(proc, "pressure", resource))
		if err != nil {
			errs = append(errs, err)
			return 0
		}
		v, err := avg10(raw, kind)
		if err != nil {
			errs = append(errs, fmt.Errorf("pressure of %s: %w", resource, err))
		}
		return v
	}
	s.cpu, s.memory, s.io = stalled("cpu", "some"), stalled("memory", "some"), stalled("io", "full")
	raw, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err == nil {
		s.available, s.known = memAvailable(raw)
	}
	if !s.known {
		errs = append(errs, fmt.Errorf("available memory: %w", errors.Join(err, fs.ErrNotExist)))
	}
	return s, errors.Join(errs...)
}

// avg10 reads one value of a file such as
//
//	some avg10=18.47 avg60=41.51 avg300=49.39 total=13967665836
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
func avg10(raw []byte, kind string) (float64, error) {
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != kind {
			continue
		}
		text, ok := strings.CutPrefix(fields[1], "avg10=")
		if v, err := strconv.ParseFloat(text, 64); ok && err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("no avg10 of %s in %.80q", kind, raw)
}

// memAvailable reads /proc/meminfo.
func memAvailable(raw []byte) (job.Size, bool) {
	for line := range strings.Lines(string(raw)) {
		var kib job.Size
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib * job.KiB, true
		}
	}
	return 0, false
}

package health

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// host creates a /proc for the test.
func host(t *testing.T, cpu, memory, io float64, availableKiB int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pressure"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{"cpu": cpu, "memory": memory, "io": io} {
		text := fmt.Sprintf("some avg10=%.2f avg60=99.00 avg300=99.00 total=1\nfull avg10=%.2f avg60=99.00 avg300=99.00 total=1\n", v, v/2)
		if err := os.WriteFile(filepath.Join(dir, "pressure", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info := fmt.Sprintf("MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   %d kB\n", availableKiB)
	if err := os.WriteFile(filepath.Join(dir, "meminfo"), []byte(info), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadSuffering(t *testing.T) {
	t.Parallel()
	got, err := readPSI(host(t, 50, 20, 80, 1<<20))
	if want := (reading{50, 20, 40, job.GiB, true}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := readPSI("/proc"); !got.known || got.available <= 0 {
		t.Errorf("of this host: %+v, %v", got, err)
	}
	if got, err := readPSI(t.TempDir()); err == nil || got != (reading{}) {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	broken := host(t, 1, 1, 1, 1)
	for _, file := range []string{"pressure/cpu", "meminfo"} {
		if err := os.WriteFile(filepath.Join(broken, file), []byte("some avg10=lots\nMemAvailable: -\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readPSI(broken); err == nil || got.cpu != 0 || got.known || got.memory != 1 {
		t.Errorf("of a kernel that speaks otherwise: %+v, %v", got, err)
	}
}

func TestPressureHolds(t *testing.T) {
	t.Parallel()
	p := NewPressure(PressureLimits{Memory: 20, IO: 80, Keep: job.GiB})
	plenty := 8 * job.GiB
	for i, c := range []struct {
		now    reading
		turned bool
		why    string
	}{
		{reading{cpu: 100, available: plenty, known: true}, false, ""}, // no limit on waiting for cores
		{reading{memory: 20, available: plenty, known: true}, true, "waiting for memory: 20% of the time (limit 20%)"},
		{reading{memory: 16, available: plenty, known: true}, false, "waiting for memory"}, // not back far enough
		{reading{memory: 16, io: 90, available: job.GiB, known: true}, false, "short of memory: 1024 MiB available"},
		{reading{memory: 14, io: 50, available: 2 * job.GiB, known: true}, true, ""},
		{reading{memory: 16, io: 79, available: job.GiB, known: true}, false, ""},
		{reading{available: job.GiB - 1, known: true}, true, "short of memory"},
		{reading{}, true, ""}, // unreadable: no reason to hold the worker back
	} {
		turned := p.note(c.now)
		if why, _, _ := p.state(); turned != c.turned || (why == "") != (c.why == "") || !strings.HasPrefix(why, c.why) {
			t.Errorf("step %d: turned %v, %q, want %v, %q", i, turned, why, c.turned, c.why)
		}
	}
}

func TestPressureAdmits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := 0
		p := NewPressure(PressureLimits{IO: 80, Keep: job.GiB})
		admit := func() (int, time.Duration) {
			began := time.Now()
			n, _ := p.Admit(t.Context(), func() int { return busy })
			return n, time.Since(began)
		}
		if n, took := admit(); n != math.MaxInt || took != 0 {
			t.Errorf("at ease: %d after %v", n, took)
		}
		p.note(reading{io: 90})
		if n, took := admit(); n != 1 || took != 0 {
			t.Errorf("slow and idle: %d after %v", n, took)
		}
		busy = 3
		go func() { time.Sleep(10 * time.Second); p.note(reading{}) }()
		if n, took := admit(); n != math.MaxInt || took != 10*time.Second {
			t.Errorf("slow and busy: %d after %v", n, took)
		}
		busy = 0
		p.note(reading{known: true})
		go func() { time.Sleep(10 * time.Second); p.note(reading{}) }()
		if n, took := admit(); n != math.MaxInt || took != 10*time.Second {
			t.Errorf("short of memory, though idle: %d after %v", n, took)
		}
		p.note(reading{known: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, took := admitIn(ctx, p); took > time.Second/2 {
			t.Errorf("a drain waits %v", took)
		}
	})
}

func admitIn(ctx context.Context, p *Pressure) (int, time.Duration) {
	began := time.Now()
	n, _ := p.Admit(ctx, func() int { return 1 })
	return n, time.Since(began)
}

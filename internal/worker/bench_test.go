package worker

import (
	"testing"

	"github.com/assay-run/assay/pkg/runtime/fake"
)

// BenchmarkNoop measures the cost of one job on a worker, without its queue and record.
func BenchmarkNoop(b *testing.B) {
	f := newFleet()
	spec := script("exit=0")
	for range b.N {
		f.submit(b, spec)
	}
	b.ReportAllocs()
	b.ResetTimer()
	bench := start(b, f, func(c *Config, p *Parts) { p.Runtime, c.Slots, c.Memory = fake.Noop(), 512, 0 })
	bench.until("all are recorded", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.total == b.N })
	b.StopTimer()
	bench.drained()
}

package containerd

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// A build is in memory, so the largest does not grow with the disk alone.
func TestEnvironmentSize(t *testing.T) {
	for _, c := range []struct{ most, memory, want job.Size }{
		{20 * job.GiB, 64 * job.GiB, 2 * job.GiB},
		{1024 * job.GiB, 64 * job.GiB, 16 * job.GiB},
		{20 * job.GiB, 4 * job.GiB, job.GiB},
		{20 * job.GiB, 0, 2 * job.GiB},
	} {
		if got := environmentSize(c.most, c.memory); got != c.want {
			t.Errorf("of %s in all, with memory of %s: %s, want %s", c.most, c.memory, got, c.want)
		}
	}
}

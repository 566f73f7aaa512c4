package capacity

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// Optional resources are taken only if they are free and no job waits.
func TestTryEnter(t *testing.T) {
	t.Parallel()
	c := New(Limits{Slots: 8, CPU: 3, Memory: 1 * job.GiB})
	one := Need{1000, int64(256 * job.MiB)}
	own := mustEnter(t, c, one)
	extra, ok := c.TryEnter(one, 2)
	if !ok {
		t.Fatal("there is room")
	}
	if _, ok := c.TryEnter(Need{1, 1}, 2); ok {
		t.Error("more than the host has")
	}
	if _, ok := c.TryEnter(Need{1500, 1}, 8); ok {
		t.Error("more cores than are free")
	}
	if _, ok := c.TryEnter(Need{1, int64(job.GiB)}, 8); ok {
		t.Error("more memory than is free")
	}
	entered := make(chan *Stay)
	go func() {
		s, err := c.Enter(t.Context(), Need{2000, 1})
		if err != nil {
			t.Error(err)
		}
		entered <- s
	}()
	for {
		c.mu.Lock()
		n := len(c.waiting)
		c.mu.Unlock()
		if n > 0 {
			break
		}
	}
	if _, ok := c.TryEnter(Need{1, 1}, 8); ok {
		t.Error("somebody waits")
	}
	extra.Leave()
	(<-entered).Leave()
	own.Leave()
	if c.Used() != (Need{}) {
		t.Errorf("%+v is still used", c.Used())
	}
}

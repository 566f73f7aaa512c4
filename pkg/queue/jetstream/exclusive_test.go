package jetstream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// TestExclusive checks that a worker gets only deliveries of its own pool, and of jobs without a pool unless
// its pool is exclusive. The remains of a pool in JetStream expire by themselves.
func TestExclusive(t *testing.T) {
	t.Parallel()
	s, key := guarded(t)
	pools := placement.Pools{"apart": {Exclusive: true}}
	d := connect(t, jetstream.Config{URL: s.url, Key: key, Exclusive: pools.Exclusive})
	go func() { _ = d.Serve(t.Context(), &witness{}) }()
	for _, c := range []struct {
		pool, class string
		given       bool
	}{
		{"plain", placement.Any, true},
		{"plain", "?memory=1Gi", true},
		{"plain", "plain", true},
		{"plain", "plain?memory=1Gi", true},
		{"plain", "apart", false},
		{"plain", "apart?memory=1Gi", false},
		{"apart", "apart", true},
		{"apart", "apart?memory=1Gi", true},
		{"apart", placement.Any, false},
		{"apart", "?memory=1Gi", false},
		{"apart", "plain", false},
	} {
		dispatch := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: c.class}
		if err := d.Publish(t.Context(), []store.Dispatch{dispatch}); err != nil {
			t.Fatal(err)
		}
		w := connectAs(t, s, key, "w", c.pool, 0)
		deliveries, err := w.Consumer(t.Context(), c.class)
		if err != nil {
			t.Fatal(err)
		}
		out := make(chan queue.Message, 1)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); { // without a dispatcher there is no answer
			_, err = deliveries.Fetch(t.Context(), 1, 30*time.Second, out)
			if len(out) > 0 || errors.Is(err, job.ErrRefused) {
				break
			}
		}
		switch {
		case c.given != (len(out) == 1), !c.given && !errors.Is(err, job.ErrRefused):
			t.Errorf("a worker of pool %q asks for class %q: it gets %d deliveries, %v", c.pool, c.class, len(out), err)
		case c.given:
			if err := (<-out).Ack(); err != nil {
				t.Error(err)
			}
		}
		w.Close()
	}
	stream, err := s.adminAs(t, key).Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if age := stream.CachedInfo().Config.MaxAge; age != 24*time.Hour {
		t.Errorf("deliveries are kept for %v", age)
	}
	forever := 0
	list := stream.ListConsumers(t.Context())
	for c := range list.Info() {
		if c.Config.InactiveThreshold == 0 {
			forever++
			if c.Config.FilterSubject != "jobs.=.>" {
				t.Errorf("the consumer of %s stays for ever", c.Config.FilterSubject)
			}
		}
	}
	if err := list.Err(); err != nil || forever != 1 {
		t.Errorf("%d consumers stay for ever, %v", forever, err)
	}
}

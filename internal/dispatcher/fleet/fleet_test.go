package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// listing is a registry in memory.
type listing struct {
	Store
	ws   map[string]store.Worker
	says int // answer of Spoken
	puts int
	fail error
}

func (l *listing) PutWorkers(_ context.Context, ws []store.Worker) error {
	l.puts++
	if l.fail != nil {
		return l.fail
	}
	for _, w := range ws {
		l.ws[w.ID] = w
	}
	return nil
}

func (l *listing) Workers(context.Context, time.Duration) (ws []store.Worker, err error) {
	for _, w := range l.ws {
		ws = append(ws, w)
	}
	return ws, l.fail
}

func (l *listing) Spoken(context.Context) (int, error) { return l.says, l.fail }

func (l *listing) Quarantine(context.Context, string, string, time.Duration, time.Duration) (bool, error) {
	return false, l.fail
}

func newTestFleet() (*Fleet, *listing) {
	l := &listing{ws: map[string]store.Worker{}}
	return New(Config{Every: time.Second, Log: slog.New(slog.DiscardHandler)}, l), l
}

func (r *Fleet) want(t *testing.T, pools map[string]Size) {
	t.Helper()
	if diff := cmp.Diff(pools, r.Sizes()); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestRegistryCounts(t *testing.T) {
	t.Parallel()
	r, l := newTestFleet()
	w := control.WorkerInfo{ID: "a", Pool: "p", Slots: 8, Busy: 3}
	if !r.RecordHeartbeat(w) || r.RecordHeartbeat(w) {
		t.Error("only the first heartbeat makes the fleet grow")
	}
	r.RecordHeartbeat(control.WorkerInfo{ID: "b", Pool: "p", Slots: 4})
	r.RecordHeartbeat(control.WorkerInfo{ID: "c", Pool: "q", Slots: 2, Busy: 5}) // more than it should have
	r.want(t, map[string]Size{"p": {12, 9}, "q": {2, 0}})

	if pool := r.Took("a", 4); pool != "p" {
		t.Errorf("pool %q", pool)
	}
	r.Took("a", 9) // never below 0
	r.Took("c", -9)
	r.Took("nobody", 3)
	r.want(t, map[string]Size{"p": {12, 4}, "q": {2, 2}})

	w.Draining = true
	if r.RecordHeartbeat(w) {
		t.Error("a worker that drains makes the fleet grow")
	}
	r.want(t, map[string]Size{"p": {4, 4}, "q": {2, 2}})

	// Workers of other dispatchers come from the store, which forgets silent ones.
	l.ws["d"] = store.Worker{ID: "d", Pool: "q", Slots: 7, InUse: 1}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want(t, map[string]Size{"p": {4, 4}, "q": {9, 6}})
	delete(l.ws, "b")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want(t, map[string]Size{"p": {0, 0}, "q": {9, 6}})
}

// TestCrews checks that classes with the same workers share a crew, and that an exclusive pool runs only jobs that
// name it.
func TestCrews(t *testing.T) {
	t.Parallel()
	r, _ := newTestFleet()
	r.pools = placement.Pools{"x": {Exclusive: true}}
	r.RecordHeartbeat(control.WorkerInfo{ID: "a", Pool: "p", Slots: 8, Busy: 3, Offer: placement.Offer{Memory: 4 * job.GiB}})
	r.RecordHeartbeat(control.WorkerInfo{ID: "b", Pool: "q", Slots: 4, Offer: placement.Offer{Memory: 2 * job.GiB}})
	r.RecordHeartbeat(control.WorkerInfo{ID: "c", Pool: "x", Slots: 2, Offer: placement.Offer{Memory: 2 * job.GiB}})
	r.RecordHeartbeat(control.WorkerInfo{ID: "d", Pool: "p", Draining: true})
	got := r.Crews(placement.Any, "p", "?memory=1Gi", "p?memory=1Gi", "?memory=2Gi", "?memory=3Gi", "x", "x?memory=1Gi", "nobody's", "?label.a=b")
	for i := range got {
		slices.Sort(got[i].Pools)
	}
	want := []Crew{
		{[]string{placement.Any, "?memory=1Gi", "?memory=2Gi"}, []string{"p", "q"}, Size{12, 9}},
		{[]string{"p", "p?memory=1Gi", "?memory=3Gi"}, []string{"p"}, Size{8, 5}},
		{[]string{"x", "x?memory=1Gi"}, []string{"x"}, Size{2, 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("crews (-want +got):\n%s", diff)
	}
	if c := r.Crew("nobody's"); c.Slots != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestRegistryOutage(t *testing.T) {
	t.Parallel()
	r, l := newTestFleet()
	r.RecordHeartbeat(control.WorkerInfo{ID: "a", Pool: "p", Slots: 8})
	l.fail = job.ErrUnavailable
	if err := r.Refresh(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	r.RecordHeartbeat(control.WorkerInfo{ID: "a", Pool: "p", Slots: 8, Busy: 2})
	r.want(t, map[string]Size{"p": {8, 6}})
	l.fail = nil
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := l.ws["a"]; w.InUse != 2 {
		t.Errorf("written down as %+v, want the latest", w)
	}
}

// TestRegistryStampede checks that many new workers are stored with few statements and without a wait for the clock.
func TestRegistryStampede(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, l := newTestFleet()
		r.every = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		for i := range 1000 {
			r.RecordHeartbeat(control.WorkerInfo{ID: fmt.Sprint(i), Pool: "p", Slots: 1})
		}
		synctest.Wait()
		cancel()
		<-done
		if len(l.ws) != 1000 || l.puts > 100 {
			t.Errorf("%d workers in %d statements", len(l.ws), l.puts)
		}
	})
}

// TestRegistryKnowsWhatIsSpoken checks that workers get the lowest protocol version of all dispatchers, and the last
// known one after an error.
func TestRegistryKnowsWhatIsSpoken(t *testing.T) {
	r, l := newTestFleet()
	for says, want := range map[int]int64{0: 0, control.Protocol: control.Protocol, control.Protocol + 7: control.Protocol} {
		l.says, l.fail = says, nil
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.says, l.fail = 0, errors.New("away")
		if err := r.Refresh(t.Context()); err == nil {
			t.Error("no error")
		}
		if got := int64(r.Spoken()); got != want {
			t.Errorf("dispatchers speak %d, workers are told %d, want %d", says, got, want)
		}
	}
}

func TestAgreed(t *testing.T) {
	t.Parallel()
	host := func(s string) store.Worker { return store.Worker{Host: []byte(s)} }
	f, l := newTestFleet()
	for i, w := range []store.Worker{
		host(`{"image_digests":{"a":"1","b":"1","c":"1"}}`), host(`{"image_digests":{"a":"1","b":"2"}}`), host(`{"image_digests":{"b":"1","d":"4"}}`), host(`{}`), host(``),
	} {
		w.ID = fmt.Sprint(i)
		l.ws[w.ID] = w
	}
	got, err := f.Images()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "", "c": "1", "d": "4"}, got); diff != "" {
		t.Error(diff)
	}
}

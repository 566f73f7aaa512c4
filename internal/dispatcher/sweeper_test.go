package dispatcher_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// TestOrphanedObjectsAreSwept checks that objects of attempts are removed unless the record names them or the attempt
// still runs, and that other objects stay.
func TestOrphanedObjectsAreSwept(t *testing.T) {
	f := newFleet(t)
	objects, err := object.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	put := func(id job.ID, lease job.Lease) string {
		key, err := object.ArtifactKey(tenant, id, lease, "/workspace/out")
		if err == nil {
			_, err = objects.Put(t.Context(), key, strings.NewReader("bytes"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	running := f.running()
	recorded := f.running()
	if _, err := f.store.Finish(t.Context(), []store.Finish{{LeaseRef: recorded, Worker: "w", Outcome: job.Succeeded, Result: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	kept := []string{put(running.Job, running.Lease), put(recorded.Job, recorded.Lease)}
	blob, _, err := objects.PutBlob(t.Context(), "acme", strings.NewReader("an input"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if blob, err = object.BlobKey("acme", blob); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, blob)
	gone := []string{put(job.NewID(), 7), put(recorded.Job, recorded.Lease+1000), put(recorded.Job, 1_000_000)}

	cfg := quick
	cfg.Objects, cfg.SweepEvery, cfg.OrphanAge, cfg.LeaseTTL = objects, 10*time.Millisecond, time.Nanosecond, never
	f.start(cfg, nil, nil)
	there := func(key string) bool { _, err := objects.Stat(t.Context(), key); return err == nil }
	f.until("the orphans are gone", func() bool { return !there(gone[0]) && !there(gone[1]) && !there(gone[2]) })
	for _, key := range kept {
		if !there(key) {
			t.Errorf("%s was swept", key)
		}
	}
}

// TestYoungObjectsAreNotSwept checks that objects younger than OrphanAge stay.
func TestYoungObjectsAreNotSwept(t *testing.T) {
	f := newFleet(t)
	objects, err := object.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	key, err := object.ArtifactKey(tenant, job.NewID(), 7, "/workspace/out")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Put(t.Context(), key, strings.NewReader("bytes")); err != nil {
		t.Fatal(err)
	}
	swept := &counting{Objects: objects}
	cfg := quick
	cfg.Objects, cfg.SweepEvery, cfg.OrphanAge = swept, time.Millisecond, never
	f.start(cfg, nil, nil)
	f.until("it was swept twice", func() bool { return swept.n.Load() > 2 })
	if _, err := objects.Stat(t.Context(), key); err != nil {
		t.Error(err)
	}
}

// TestObjectsOfOthersAreNotSwept checks that no objects of another fleet are removed: neither below its mark nor in
// an unmarked store with many unknown objects.
func TestObjectsOfOthersAreNotSwept(t *testing.T) {
	for name, before := range map[string]func(*object.Store) int{
		"marked by another fleet": func(o *object.Store) int {
			if _, err := o.Put(t.Context(), "fleet", strings.NewReader("another")); err != nil {
				t.Fatal(err)
			}
			return 3
		},
		"of a fleet that did not mark it": func(*object.Store) int { return 120 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			objects, err := object.Open(t.Context(), "file://"+t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer objects.Close()
			n := before(objects)
			for range n {
				key, err := object.ArtifactKey(tenant, job.NewID(), 7, "/workspace/out")
				if err == nil {
					_, err = objects.Put(t.Context(), key, strings.NewReader("bytes"))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			asked := &asking{Objects: objects}
			cfg := quick
			cfg.Objects, cfg.SweepEvery, cfg.OrphanAge = asked, time.Millisecond, time.Nanosecond
			f.start(cfg, nil, nil)
			f.until("it has looked twice", func() bool { return asked.n.Load() > 2 })
			left := 0
			for o, err := range objects.List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if _, _, _, ok := object.AttemptOf(o.Key); ok {
					left++
				}
			}
			if left != n {
				t.Errorf("%d of %d are left", left, n)
			}
		})
	}
}

// asking counts sweeps by their first step.
type asking struct {
	dispatcher.Objects
	n atomic.Int64
}

func (a *asking) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	defer a.n.Add(1)
	return a.Objects.Get(ctx, key)
}

// counting counts sweeps by their last step.
type counting struct {
	dispatcher.Objects
	n atomic.Int64
}

func (c *counting) SweepTemp(ctx context.Context, age time.Duration) (int, error) {
	defer c.n.Add(1)
	return c.Objects.SweepTemp(ctx, age)
}

// running makes a job run without a dispatcher.
func (f *fleet) running() store.LeaseRef {
	f.Helper()
	_, ids := f.submit(1)
	ds, err := f.store.Schedule(f.Context(), []string{placement.Any}, 1000)
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range ds {
		if d.Job != ids[0] {
			continue
		}
		got, err := f.store.Claim(f.Context(), never, []store.Claim{{Ref: d.Ref, Worker: "w"}})
		if err != nil || got[0].Lease == 0 {
			f.Fatalf("claim: %+v, %v", got, err)
		}
		return store.LeaseRef{Job: d.Job, Lease: got[0].Lease}
	}
	f.Fatal("the job was not scheduled")
	return store.LeaseRef{}
}

// TestDrySweep checks that a dry run counts the removable objects, and removes and marks none.
func TestDrySweep(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	objects, err := object.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	key, err := object.ArtifactKey(tenant, job.NewID(), 7, "/workspace/out")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Put(t.Context(), key, strings.NewReader("bytes")); err != nil {
		t.Fatal(err)
	}
	cfg := quick
	cfg.Objects, cfg.SweepEvery, cfg.OrphanAge = objects, never, time.Nanosecond
	d := f.start(cfg, nil, nil)
	dry, err := d.Sweep(t.Context(), true)
	if err != nil || !dry.DryRun || dry.Attempts != 1 || dry.Orphaned != 1 || dry.Bytes != 5 || dry.Removed != 0 {
		t.Errorf("%+v, %v", dry, err)
	}
	if _, err := objects.Stat(t.Context(), key); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	if _, err := objects.Stat(t.Context(), "fleet"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("the object store is marked: %v", err)
	}
	wet, err := d.Sweep(t.Context(), false)
	if err != nil || wet.Orphaned != 1 || wet.Removed != 1 {
		t.Errorf("%+v, %v", wet, err)
	}
	if _, err := objects.Stat(t.Context(), key); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("it was not removed: %v", err)
	}
	if _, err := objects.Put(t.Context(), "fleet", strings.NewReader("another's")); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if _, err := d.Sweep(t.Context(), dry); !errors.Is(err, job.ErrRefused) {
			t.Errorf("another fleet's, dry %v: %v", dry, err)
		}
	}
}

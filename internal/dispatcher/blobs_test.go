package dispatcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// TestOldInputsAreSwept checks that inputs without a request for BlobAge are removed, unless a job that has waited
// since needs them.
func TestOldInputsAreSwept(t *testing.T) {
	f := newFleet(t)
	dir := t.TempDir()
	objects, err := object.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	put := func(content string, age time.Duration) (ref, key string) {
		ref, _, err := objects.PutBlob(t.Context(), tenant, strings.NewReader(content), 100)
		if err == nil {
			key, err = object.BlobKey(tenant, ref)
		}
		if err == nil {
			then := time.Now().Add(-age)
			err = os.Chtimes(filepath.Join(dir, key), then, then)
		}
		if err != nil {
			t.Fatal(err)
		}
		return ref, key
	}
	const age = 48 * time.Hour
	_, old := put("old", 2*age)
	_, young := put("young", age/2)
	needed, kept := put("needed", 2*age)
	again, asked := put("asked for", 2*age)
	f.submit(1, func(j *store.NewJob) {
		j.ID = job.FirstIDAt(time.Now().Add(-3 * age))
		j.Spec = fmt.Appendf(nil, `{"files":{"/workspace/in":{"blob":%q}},"program":{"python":{"code":"1"}}}`, needed)
	})
	if err := f.store.Maintain(t.Context()); err != nil { // finds the days of unfinished jobs
		t.Fatal(err)
	}
	if _, err := objects.StatBlob(t.Context(), tenant, again); err != nil {
		t.Fatal(err)
	}
	swept := &asking{Objects: objects}
	cfg := quick
	cfg.Objects, cfg.SweepEvery, cfg.BlobAge = swept, 10*time.Millisecond, age
	f.start(cfg, nil, nil)
	there := func(key string) bool { _, err := objects.Stat(t.Context(), key); return err == nil }
	f.until("the old one is gone", func() bool { return !there(old) })
	n := swept.n.Load()
	f.until("it was swept again", func() bool { return swept.n.Load() > n+4 })
	for _, key := range []string{young, kept, asked} {
		if !there(key) {
			t.Errorf("%s was swept", key)
		}
	}
}

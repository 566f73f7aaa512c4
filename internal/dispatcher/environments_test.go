package dispatcher_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

var (
	envName   = strings.Repeat("ab", 32)
	envDigest = "sha256:" + strings.Repeat("0f", 32)
)

// connectAs connects as a worker of a pool.
func (f *fleet) connectAs(worker, pool string) *jetstream.Queue {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patient)
	defer cancel()
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: f.natsURL, AckWait: f.ackWait, Log: f.log(), Worker: &identity.Worker{ID: worker, Pool: pool}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(q.Close)
	return q
}

// environment sends a statement about an environment as a worker, and repeats it until a dispatcher answers.
func (f *fleet) environment(worker, pool, digest string) (reply control.EnvironmentReply) {
	f.Helper()
	q := f.connectAs(worker, pool)
	f.until("a dispatcher answers", func() bool {
		var err error
		reply, err = q.Environment(f.Context(), control.EnvironmentRequest{Worker: worker, Name: envName, Digest: digest})
		if err != nil && !errors.Is(err, job.ErrUnavailable) {
			f.Fatal(err)
		}
		return err == nil
	})
	return reply
}

// TestEnvironmentsNeedWitnesses checks that one worker's statement is not enough, and that statements of other pools do
// not count. A worker cannot make a statement for another.
func TestEnvironmentsNeedWitnesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.EnvironmentWitnesses = 2
	f.start(cfg, nil, nil)
	for _, step := range []struct{ worker, pool, digest, want string }{
		{"w1", "default", "", ""},
		{"w1", "default", envDigest, ""},
		{"w3", "default", "", ""},
		{"g1", "gpu", envDigest, ""},
		{"g2", "gpu", envDigest, ""},
		{"w3", "default", "", ""},
		{"g3", "gpu", "", envDigest},
		{"w2", "default", envDigest, ""},
		{"w3", "default", "", envDigest},
	} {
		if got := f.environment(step.worker, step.pool, step.digest); got != (control.EnvironmentReply{Digest: step.want}) {
			t.Fatalf("%+v: answered %+v", step, got)
		}
	}
	q := f.connectAs("w1", "default")
	for field, r := range map[string]control.EnvironmentRequest{
		"name": {Worker: "w1", Name: "numpy"}, "digest": {Worker: "w1", Name: envName, Digest: "sha256:1"},
	} {
		if _, err := q.Environment(t.Context(), r); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestEnvironmentsThatAreNotShared checks that workers learn that environments are not shared, and that no statement
// is stored.
func TestEnvironmentsThatAreNotShared(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start(quick, nil, nil)
	for _, digest := range []string{envDigest, ""} {
		if got := f.environment("w1", "default", digest); got != (control.EnvironmentReply{Off: true}) {
			t.Errorf("answered %+v", got)
		}
	}
	if digest, err := f.store.Environment(t.Context(), "default", envName, 1); err != nil || digest != "" {
		t.Errorf("the statement was kept: %q, %v", digest, err)
	}
}

// TestOldEnvironmentsAreSwept checks that environments without a fetch or an offer for BlobAge are removed, and no
// other objects below their prefix.
func TestOldEnvironmentsAreSwept(t *testing.T) {
	f := newFleet(t)
	dir := t.TempDir()
	objects, err := object.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	const age = 48 * time.Hour
	aged := func(key string, by time.Duration) string {
		then := time.Now().Add(-by)
		if err := os.Chtimes(filepath.Join(dir, key), then, then); err != nil {
			t.Fatal(err)
		}
		return key
	}
	put := func(name string, by time.Duration) string {
		key, err := object.EnvironmentKey(name, envDigest)
		if err == nil {
			err = objects.PutEnvironment(t.Context(), name, envDigest, false, func(w io.Writer) error { _, err := io.WriteString(w, "old"); return err })
		}
		if err != nil {
			t.Fatal(err)
		}
		return aged(key, by)
	}
	old := put(strings.Repeat("01", 32), 2*age)
	young := put(strings.Repeat("02", 32), age/2)
	fetched := put(strings.Repeat("03", 32), 2*age)
	if r, err := objects.GetEnvironment(t.Context(), strings.Repeat("03", 32), envDigest); err != nil || r.Close() != nil {
		t.Fatal(err)
	}
	other := object.EnvironmentPrefix + "another/thing"
	if _, err := objects.Put(t.Context(), other, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	aged(other, 2*age)
	stated := store.EnvironmentStatement{Name: envName, Pool: pool, Worker: "w", Witness: "w", Digest: envDigest}
	if err := f.store.StateEnvironment(t.Context(), stated); err != nil {
		t.Fatal(err)
	}

	cfg := quick
	cfg.Objects, cfg.SweepEvery, cfg.BlobAge = objects, never, age
	d := f.start(cfg, nil, nil)
	there := func(key string) bool { _, err := objects.Stat(t.Context(), key); return err == nil }
	if found, err := d.Sweep(t.Context(), true); err != nil || found.Environments != 1 || found.Bytes != 3 || found.Removed != 0 || !there(old) {
		t.Errorf("a dry run: %+v, %v", found, err)
	}
	if found, err := d.Sweep(t.Context(), false); err != nil || found.Environments != 1 || found.Removed != 1 || there(old) {
		t.Errorf("a sweep: %+v, %v", found, err)
	}
	for _, key := range []string{young, fetched, other} {
		if !there(key) {
			t.Errorf("%s was swept", key)
		}
	}
	if digest, err := f.store.Environment(t.Context(), pool, envName, 1); err != nil || digest != envDigest {
		t.Errorf("a young statement was forgotten: %q, %v", digest, err)
	}
}

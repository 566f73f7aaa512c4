package containerd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
)

// from lets a runtime pull from x, and keep so much of it.
func from(x *imagetest.Registries, space job.Size) func(*Config) {
	return func(c *Config) { c.ImageRegistries, c.ImagesMost = x.URLs, space }
}

// slotOf makes a container of an image.
func slotOf(t *testing.T, r *Runtime, ref string) *slot {
	t.Helper()
	s, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: ref, Isolation: policy.Task, Kind: "command"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.(*slot)
}

// sees returns the content of a file of the image in the container of s.
func sees(t *testing.T, s *slot, file string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/%s", s.container.Proc.PID, file))
	if err != nil {
		t.Errorf("an image in use lost a file: %v", err)
	}
	return string(data)
}

// there reports whether containerd has an image, and whether anything of its root
// file system is left.
func there(t *testing.T, r *Runtime, ref, chain string) (listed, root bool) {
	t.Helper()
	_, err := r.client.GetImage(t.Context(), ref)
	if err != nil && !errdefs.IsNotFound(err) {
		t.Fatal(err)
	}
	walked := r.client.SnapshotService(image.Snapshotter).Walk(t.Context(), func(_ context.Context, s snapshots.Info) error {
		root = root || strings.Contains(s.Name, chain) // the layers', and their products here and of other workers
		return nil
	})
	if walked != nil {
		t.Fatal(walked)
	}
	return err == nil, root
}

func chainOf(t *testing.T, r *Runtime, ref string) string {
	t.Helper()
	img, err := r.images.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return img.RootName()
}

// Pulled images go when their space is full, the one first that was used longest ago;
// none that is in use, and none of the operator's.
func TestPulledImagesAreCollected(t *testing.T) {
	x := imagetest.NewRegistries(t, 5)
	r := newRuntime(t, from(x, 5*job.MiB)) // room for two
	used := slotOf(t, r, x.Refs[0])
	idle := chainOf(t, r, x.Refs[1])
	chainOf(t, r, x.Refs[2])
	if image, root := there(t, r, x.Refs[1], idle); image || root {
		t.Errorf("the idle image is left: %v, and its root file system: %v", image, root)
	}
	for _, ref := range []string{x.Refs[0], x.Refs[2], testenv.Image} {
		if _, err := r.client.GetImage(t.Context(), ref); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if got := sees(t, used, "name"); got != "0" || !used.alive() {
		t.Errorf("the image in use is that of %q now", got)
	}
	if again := slotOf(t, r, x.Refs[1]); sees(t, again, "name") != "1" || x.Pulled[1].Load() != 2 {
		t.Errorf("what was collected was pulled %d times, want a second time", x.Pulled[1].Load())
	}

	// A space full of environments in use is a temporary error.
	if _, err := r.images.Get(t.Context(), x.Refs[3]); err != nil { // above the bound once: its size was not known
		t.Fatal(err)
	}
	slotOf(t, r, x.Refs[3])
	key := runtime.Key{Tenant: "test", Image: x.Refs[4], Isolation: policy.Task, Kind: "command"}
	if _, err := r.Acquire(t.Context(), key); !errors.Is(err, runtime.ErrImage) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("with every image in use: %v", err)
	}
	used.Close()
	eventually(t, "the image of a closed slot makes room", func() bool {
		s, err := r.Acquire(t.Context(), key)
		if err == nil {
			s.Close()
		}
		return err == nil
	})
	if image, _ := there(t, r, x.Refs[0], idle); image {
		t.Error("the image of the closed slot is left")
	}
}

// TestImagesOfAnotherWorkerStay checks that environments mounted by another worker of the same containerd are
// not collected.
func TestImagesOfAnotherWorkerStay(t *testing.T) {
	x := imagetest.NewRegistries(t, 2)
	r, beside := newRuntime(t, from(x, 3*job.MiB)), newRuntime(t, from(x, 40*job.GiB))
	theirs := slotOf(t, beside, x.Refs[0])
	chain := chainOf(t, r, x.Refs[0])
	chainOf(t, r, x.Refs[1])
	if image, root := there(t, r, x.Refs[0], chain); !image || !root || sees(t, theirs, "name") != "0" {
		t.Errorf("the image is there: %v, and its root file system: %v", image, root)
	}
	theirs.Close()
	eventually(t, "the slot is gone", func() bool { return beside.images.Holders(x.Refs[0]) == 0 })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := beside.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := r.images.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if image, root := there(t, r, x.Refs[0], chain); image || root {
		t.Errorf("when nobody has it: the image is there: %v, and its root file system: %v", image, root)
	}
}

// TestEnvironmentsLetGoOfTheirImage checks that an unused environment does not keep its base image, and is
// not lost with it. An environment in use keeps it.
func TestEnvironmentsLetGoOfTheirImage(t *testing.T) {
	x := imagetest.NewRegistries(t, 3)
	r := newRuntime(t, from(x, 5*job.MiB))
	stacked := func(i int, name string) (*image.Image, string) {
		t.Helper()
		base, err := r.images.Get(t.Context(), x.Refs[i])
		if err != nil {
			t.Fatal(err)
		}
		// As it is kept when it was built before, for any tenant.
		dir := filepath.Join(r.dir, "environments", fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", []string{base.Digest, name}))))
		err = errors.Join(os.MkdirAll(filepath.Join(dir, "layer"), 0o755), os.WriteFile(filepath.Join(dir, "layer", "package"), nil, 0o644),
			os.WriteFile(filepath.Join(dir, "lock.json"), []byte(`{"tree":"`+name+`","packages":["`+name+`"]}`), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		img, err := r.environments.get(t.Context(), base, "test", name)
		if err != nil {
			t.Fatal(err)
		}
		return img, dir
	}
	idle, dir := stacked(0, "idle")
	busy, _ := stacked(1, "busy")
	release, err := r.images.Hold(busy)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	chainOf(t, r, x.Refs[2]) // there was room for two
	if _, err := r.client.GetImage(t.Context(), x.Refs[0]); !errdefs.IsNotFound(err) {
		t.Errorf("the image below an idle environment: %v", err)
	}
	if _, err := r.images.Hold(idle); !errors.Is(err, image.ErrCollected) || r.images.Lookup(idle.Digest) != nil {
		t.Errorf("the idle environment is held: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "layer", "package")); err != nil {
		t.Errorf("the idle environment is lost: %v", err)
	}
	for _, file := range []string{"package", "noise"} {
		if _, err := os.Stat(filepath.Join(busy.Rootfs, file)); err != nil {
			t.Errorf("the environment in use: %v", err)
		}
	}
	if _, err := r.client.GetImage(t.Context(), x.Refs[1]); err != nil {
		t.Errorf("the image below an environment in use: %v", err)
	}
}

// TestEnvironmentsAreCollected checks that a full space does not refuse builds for ever. The least recently
// used environment goes; a tenant above its share loses its own. Environments in use stay.
func TestEnvironmentsAreCollected(t *testing.T) {
	wheels := map[string][]byte{}
	for i := range 5 {
		name := fmt.Sprintf("assay_big%d", i)
		wheels[name+"-1.0-py3-none-any.whl"] = environmenttest.Wheel(t, name, "1.0", "BIG = 'x' * (1 << 20) # "+strings.Repeat("x", 1<<20)+"\n") // its byte code is small
	}
	x := environmenttest.Serve(t, wheels)
	kept := t.TempDir()
	r := newRuntime(t, func(c *Config) {
		c.Index, c.Environments, c.EnvironmentsMost = environment.Index{URL: x.URL}, kept, 5*job.MiB/2
	})
	acquire := func(tenant string, i int) *slot {
		t.Helper()
		var s runtime.Slot
		eventually(t, "there is room for an environment", func() bool {
			var err error
			s, err = r.Acquire(t.Context(), runtime.Key{
				Tenant: tenant, Image: testenv.Image, Isolation: policy.Task, Kind: "command", Packages: fmt.Sprintf("assay_big%d", i),
			})
			if err != nil && !errors.Is(err, runtime.ErrImage) { // what used one a moment ago is being cleaned up
				t.Fatal(err)
			}
			return err == nil
		})
		t.Cleanup(s.Close)
		return s.(*slot)
	}
	module := func(i int) string { return distPackages + fmt.Sprintf("assay_big%d/__init__.py", i) }
	used := acquire("one", 0)
	for i := 1; i < 5; i++ {
		tenant := "two" // which has half, and then instead of its own
		if i == 4 {
			tenant = "three"
		}
		s := acquire(tenant, i)
		if got := sees(t, s, module(i)); len(got) < 1<<20 {
			t.Errorf("environment %d holds %d bytes of its package", i, len(got))
		}
		s.Close()
	}
	if got := sees(t, used, module(0)); len(got) < 1<<20 {
		t.Errorf("the environment in use holds %d bytes of its package", len(got))
	}
	layers, err := filepath.Glob(filepath.Join(kept, "*", "layer"))
	var total int64
	for _, layer := range layers {
		k, rerr := readKept(filepath.Join(filepath.Dir(layer), "lock.json"))
		total, err = total+k.Bytes, errors.Join(err, rerr)
	}
	if err != nil || len(layers) > 3 || total > 4<<20 {
		t.Errorf("%d environments of %d bytes are kept, %v", len(layers), total, err)
	}
	if n := x.Asked.Load(); n != 5 {
		t.Errorf("%d wheels were fetched, want 5", n)
	}

	// A forgotten environment is built again, and a kept one is not.
	rep, err := ofTenant(t, r, "one", policy.Task, pySnippet("import assay_big0; print(len(assay_big0.BIG))"), "assay_big0")
	if err != nil || rep.Stdout.Text != fmt.Sprintln(1<<20) || x.Asked.Load() != 5 {
		t.Errorf("the one in use, for another job: %+v, %v; %d wheels were fetched", rep, err, x.Asked.Load())
	}
	acquire("two", 1)
	if n := x.Asked.Load(); n != 6 {
		t.Errorf("%d wheels were fetched, want one again", n)
	}
	left, err := filepath.Glob(filepath.Join(kept, "gone-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("what was forgotten is left: %q, %v", left, err)
	}
}

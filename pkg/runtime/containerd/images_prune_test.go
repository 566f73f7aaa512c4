package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
)

// openHost is the images of a namespace, as one sees them beside the worker.
func openHost(t *testing.T, namespace string, trusted ...string) *image.Host {
	t.Helper()
	s, err := image.OpenHost(t.Context(), testenv.Containerd(t).Address, namespace, trusted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func pruned(t *testing.T, s *image.Host, older time.Duration, dry bool) (out []image.Pruned) {
	t.Helper()
	if err := s.Prune(t.Context(), older, dry, func(p image.Pruned) { out = append(out, p) }); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b image.Pruned) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// TestPruneBesideAWorker checks that images of jobs are pruned beside a working worker. Running jobs keep
// their files, named images are pulled again, and unused ones are freed. Images that the operator brought or
// trusts stay.
func TestPruneBesideAWorker(t *testing.T) {
	x := imagetest.NewRegistries(t, 3)
	trusted := strings.TrimSuffix(x.Refs[2], ":1")
	r := newRuntime(t, func(c *Config) {
		from(x, 40*job.GiB)(c)
		c.TrustedImages = []string{trusted}
	})
	s := openHost(t, r.cfg.Namespace, trusted)
	used := slotOf(t, r, x.Refs[0])
	idle := chainOf(t, r, x.Refs[1])
	held := chainOf(t, r, x.Refs[0])
	chainOf(t, r, x.Refs[2])
	ofHost := func(name string) (found policy.HostImage) {
		all, _ := r.Images()
		for _, i := range all {
			if i.Name == name {
				found = i
			}
		}
		return found
	}
	eventually(t, "the worker says which images it has", func() bool {
		return ofHost(x.Refs[0]).Pulled && ofHost(x.Refs[1]).Pulled && ofHost(x.Refs[2]).Digest != "" && !ofHost(x.Refs[2]).Pulled &&
			ofHost(testenv.Image).Digest != "" && !ofHost(testenv.Image).Pulled
	})
	if i := ofHost(x.Refs[0]); i.Bytes < 2<<20 || i.Bytes > 3<<20 || !strings.HasPrefix(i.Digest, "sha256:") {
		t.Errorf("the worker says %+v of an image of 1 MiB packed and 1 MiB unpacked", i)
	}
	mine := func(all []image.Pruned) (out []image.Pruned) { // beside those of other tests
		for _, p := range all {
			if slices.Contains(x.Refs, p.Name) {
				out = append(out, p)
			}
		}
		return out
	}
	if got := mine(pruned(t, s, time.Hour, false)); len(got) > 0 {
		t.Errorf("pulled more than an hour ago: %+v", got)
	}
	want := slices.Sorted(slices.Values(x.Refs[:2]))
	for _, dry := range []bool{true, false} {
		got := mine(pruned(t, s, 0, dry))
		if len(got) != 2 || got[0].Name != want[0] || got[1].Name != want[1] || !got[0].InUse || !got[1].InUse || got[0].Bytes < 2<<20 {
			t.Errorf("pruned, dry %v: %+v", dry, got)
		}
		for _, ref := range x.Refs[:2] {
			if _, err := r.client.GetImage(t.Context(), ref); errdefs.IsNotFound(err) == dry {
				t.Errorf("dry %v: %s: %v", dry, ref, err)
			}
		}
	}
	for _, ref := range []string{x.Refs[2], testenv.Image} {
		if _, err := r.client.GetImage(t.Context(), ref); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if got := sees(t, used, "name"); got != "0" || !used.alive() {
		t.Errorf("the image in use is that of %q now", got)
	}
	eventually(t, "the worker says what it has no more, and frees what nobody uses", func() bool {
		_, root := there(t, r, x.Refs[1], idle)
		return ofHost(x.Refs[0]).Name == "" && ofHost(x.Refs[1]).Name == "" && !root
	})
	if _, root := there(t, r, x.Refs[0], held); !root || sees(t, used, "name") != "0" {
		t.Error("the image in use lost its files")
	}
	for i := range 2 {
		if again := slotOf(t, r, x.Refs[i]); sees(t, again, "name") != fmt.Sprint(i) {
			t.Errorf("a job that names %s again sees another", x.Refs[i])
		}
	}
	if x.Pulled[1].Load() != 2 {
		t.Errorf("what was freed was pulled %d times, want a second time", x.Pulled[1].Load())
	}
	eventually(t, "the worker says that it has it again, and what it takes", func() bool {
		return ofHost(x.Refs[0]).Bytes > 1<<20 && ofHost(x.Refs[0]).Bytes < 3<<20
	})
}

// The prune frees unmounted images itself.
func TestPruneFrees(t *testing.T) {
	x := imagetest.NewRegistries(t, 1)
	r := newRuntime(t, from(x, 40*job.GiB))
	chain := chainOf(t, r, x.Refs[0])
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newRuntime(t, from(x, 40*job.GiB))
	s := openHost(t, again.cfg.Namespace)
	for _, p := range pruned(t, s, 0, false) {
		if p.Name == x.Refs[0] && p.InUse {
			t.Errorf("pruned: %+v", p)
		}
	}
	if image, root := there(t, again, x.Refs[0], chain); image || root {
		t.Errorf("left: image %v, root file system %v", image, root)
	}
}

// TestPruneWhileImagesAreMade checks jobs whose image is pruned while it is pulled, unpacked, mounted or
// held. The job has its files, or at worst waits. It does not fail, and the worker is not at fault.
func TestPruneWhileImagesAreMade(t *testing.T) {
	x := imagetest.NewRegistries(t, 1)
	r := newRuntime(t, from(x, 40*job.GiB))
	s := openHost(t, r.cfg.Namespace)
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := s.Prune(context.WithoutCancel(t.Context()), 0, false, func(image.Pruned) {}); err != nil {
				done <- err
				return
			}
			if _, err := r.images.Look(context.WithoutCancel(t.Context())); err != nil { // it releases pruned images
				done <- err
				return
			}
		}
	}()
	had := 0
	for range 20 {
		r.images.Forget(x.Refs[0]) // it is looked for again
		again, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: x.Refs[0], Isolation: policy.Task, Kind: "command"})
		if errors.Is(err, runtime.ErrImage) {
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		if got := sees(t, again.(*slot), "name"); got != "0" {
			t.Errorf("a job sees %q", got)
		}
		again.Close()
		had++
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := x.Pulled[0].Load(); n < 2 || had < 5 {
		t.Errorf("of 20 jobs %d had the image, which was pulled %d times", had, n)
	}
}

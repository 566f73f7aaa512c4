package containerd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
)

// TestProve checks that Prove leaves nothing behind, and names the problem of a host where nothing runs.
func TestProve(t *testing.T) {
	// It answers a self-check, and makes no sandbox.
	pretends := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(pretends, []byte("#!/bin/sh\ncase \"$*\" in *' do '*) exit 0;; esac\necho 'no sandbox today' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t, func(c *Config) { c.Runsc = pretends })
	for _, level := range []policy.Isolation{policy.Cell, policy.Task} {
		if err := r.Prove(t.Context(), testenv.Image, level); err != nil {
			t.Errorf("%s: %v", level, err)
		}
	}
	for what, call := range map[string]func() error{
		"make a sandbox":      func() error { return r.Prove(t.Context(), testenv.Image, policy.GVisor) },
		"no image":            func() error { return r.Prove(t.Context(), "no-such", policy.Task) },
		"vm is not available": func() error { return r.Prove(t.Context(), testenv.Image, policy.VM) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want an error that says %q", err, what)
		}
	}
	// An image without echo is tried as far as it goes, and a worker that may pull images needs none here.
	x := imagetest.NewRegistries(t, 1)
	pulls := newRuntime(t, from(x, 40*job.GiB))
	for _, level := range []policy.Isolation{policy.Cell, policy.Task} {
		if err := pulls.Prove(t.Context(), x.Refs[0], level); err != nil {
			t.Errorf("%s without echo: %v", level, err)
		}
	}
	pulls.cfg.ImageRegistries = nil
	if got, err := pulls.canaryImage(t.Context(), "no-such"); err != nil || got != "no-such" {
		t.Errorf("an image that was named and is not here: %q, %v", got, err)
	}
	var ids []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err error
		if ids, err = r.engine.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			return
		}
	}
	t.Errorf("containers are left: %q", ids)
}

// TestHostOffersWhatItCanRun checks that a host that cannot run cells reports that, and does not offer them.
func TestHostOffersWhatItCanRun(t *testing.T) {
	r := newRuntime(t, nil)
	if h := r.Host(); !slices.Contains(h.Isolations, policy.Cell) || !slices.Contains(h.Isolations, policy.Task) || len(h.Missing) > 0 {
		t.Errorf("host = %+v", h)
	}
	r.cfg.Guest = "/dev/null"
	h := r.inspect(t.Context())
	if slices.Contains(h.Isolations, policy.Cell) || !slices.Contains(h.Isolations, policy.Task) ||
		len(h.Missing) != 1 || !strings.HasPrefix(h.Missing[0], "isolation cell: ") {
		t.Errorf("host = %+v", h)
	}
}

package containerd

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
)

// sleepyPackage is a source distribution whose build sleeps for so many seconds.
func sleepyPackage(t *testing.T, name string, seconds int) []byte {
	return imagetest.Zipped(t, func(w io.Writer) {
		a := tar.NewWriter(w)
		for file, text := range map[string]string{
			"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"back\"\nbackend-path = [\".\"]\n",
			"back.py":        fmt.Sprintf("import time\ntime.sleep(%d)\n", seconds),
			"PKG-INFO":       "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		} {
			_ = a.WriteHeader(&tar.Header{Name: name + "-1.0/" + file, Mode: 0o644, Size: int64(len(text))})
			_, _ = io.WriteString(a, text)
		}
		_ = a.Close()
	})
}

// However many builds of a tenant sleep, another tenant's goes on; and its environments do
// not take what others' need. On 5ee7338 two builds that slept for 40 s had another tenant wait
// for 79, and what one tenant kept left no space for anybody: "this worker keeps no more environments".
func TestEnvironmentsOfOneTenantAreInNobodysWay(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"assay_hello-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_hello", "1.0", ""), "assay_other-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_other", "1.0", "")}
	for _, name := range []string{"slow_a", "slow_b", "slow_c"} {
		files[name+"-1.0.tar.gz"] = sleepyPackage(t, name, 60)
	}
	x := environmenttest.Serve(t, files)
	r := newRuntime(t, func(c *Config) {
		c.Index, c.Environments, c.EnvironmentsMost = environment.Index{URL: x.URL}, t.TempDir(), 1000 // bytes: less than one takes
	})
	acquire := func(ctx context.Context, tenant, packages string) error {
		slot, err := r.Acquire(ctx, runtime.Key{Tenant: tenant, Image: testenv.Image, Isolation: policy.Task, Kind: "python", Packages: packages})
		if err == nil {
			slot.Close()
		}
		return err
	}
	if err := acquire(t.Context(), "a", "assay_hello"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	defer slow.Wait()
	defer cancel()
	for _, name := range []string{"slow_a", "slow_b", "slow_c"} {
		slow.Go(func() { _ = acquire(ctx, "a", name) })
	}
	time.Sleep(3 * time.Second) // until they sleep
	began := time.Now()
	if err := acquire(t.Context(), "b", "assay_other"); err != nil {
		t.Errorf("another tenant's environment: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("another tenant's environment took %v", took)
	}
}

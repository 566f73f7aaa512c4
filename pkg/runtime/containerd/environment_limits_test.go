package containerd

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
)

// TestEnvironmentsHaveLimits checks that an environment above the operator's limits of size or time fails its
// job with a reason. An environment within the limits is built.
func TestEnvironmentsHaveLimits(t *testing.T) {
	t.Parallel()
	x := environmenttest.Serve(t, map[string][]byte{
		"assay_small-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_small", "1.0", ""),
		"assay_large-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_large", "1.0", "x = '"+strings.Repeat("large", 1<<20)+"'\n"),
		"slow-1.0.tar.gz":                  sleepyPackage(t, "slow", 60),
	})
	r := newRuntime(t, func(c *Config) {
		c.Index, c.EnvironmentSize, c.EnvironmentTime = environment.Index{URL: x.URL}, 4*job.MiB, 15*time.Second
	})
	for packages, want := range map[string]string{"assay_small": "", "assay_large": "limit of 4Mi", "slow": "15s"} {
		began := time.Now()
		slot, err := r.Acquire(t.Context(), runtime.Key{Tenant: "a", Image: testenv.Image, Isolation: policy.Task, Kind: "python", Packages: packages})
		said := ""
		if err == nil {
			slot.Close()
		} else {
			said = err.Error()
		}
		if (want == "") != (err == nil) || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", packages, said, want)
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("%s took %v", packages, took)
		}
	}
}

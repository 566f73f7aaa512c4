package containerd

import (
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func suiteConfig(isolation policy.Isolation) runtimetest.Config {
	return runtimetest.Config{
		New:       func(t *testing.T) runtime.Runtime { return newRuntime(t, nil) },
		Image:     testenv.Image,
		Isolation: isolation,
		Plan: func(t *testing.T, host policy.Host, isolation policy.Isolation, edit func(*policy.Policy)) *policy.Plan {
			return plan(t, host, isolation, edit)
		},
	}
}

func TestTaskLifecycle(t *testing.T) { runtimetest.Lifecycle(t, suiteConfig(policy.Task)) }

func TestTaskContract(t *testing.T) { runtimetest.Contract(t, suiteConfig(policy.Task)) }

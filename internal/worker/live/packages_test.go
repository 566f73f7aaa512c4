package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// unbuilt is a runtime that cannot install packages.
type unbuilt struct{ runtime.Runtime }

func (unbuilt) Acquire(_ context.Context, k runtime.Key) (runtime.Slot, error) {
	return nil, fmt.Errorf("acquire: %w", &runtime.BuildError{Message: fmt.Sprintf("pip failed: no distribution of %v", k.Packages)})
}

// TestPackagesThatCannotBeInstalled checks that a session whose packages cannot be installed is rejected with the
// name of the field, and leaves no reserved room.
func TestPackagesThatCannotBeInstalled(t *testing.T) {
	t.Parallel()
	m := manage(t, Config{Runtime: unbuilt{}, Limits: Limits{Places: 4}})
	_, err := m.Handle(t.Context(), opening("t", `{"memory":"1Gi","packages":["nonesuch==1"]}`))
	if !errors.Is(err, job.ErrInvalid) || errors.Is(err, job.ErrUnavailable) || !strings.Contains(err.Error(), "policy.packages: pip failed: no distribution of nonesuch==1") {
		t.Errorf("%v, want a refusal that names policy.packages", err)
	}
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	if m.ledger.all != (share{}) || m.Live() != 0 {
		t.Errorf("%+v reserved, %d sessions", m.ledger.all, m.Live())
	}
}

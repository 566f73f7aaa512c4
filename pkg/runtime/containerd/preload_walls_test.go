package containerd

import (
	"context"
	"fmt"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// imported is a runtime all of whose python programs import a module for which there is
// a preload, whether they say so or not: their walls are those of all others.
type imported struct {
	*Runtime
	t *testing.T
}

const importedModule = "asyncio"

func newImported(t *testing.T) imported {
	r := newRuntime(t, func(c *Config) { c.PreloadMemory = job.GiB })
	return imported{r, t}
}

func (i imported) Acquire(ctx context.Context, key runtime.Key) (runtime.Slot, error) {
	if key.Kind == "python" && key.Image == testenv.Image && key.Isolation == policy.Cell {
		key.Imports, key.CPU = importedModule, policy.Default().CPU
	}
	for {
		slot, err := i.Runtime.Acquire(ctx, key)
		if err != nil || key.Imports == "" || slot.(*cellSlot).preload != nil {
			return slot, err
		}
		slot.Close()
	}
}

func importedConfig(made *imported) runtimetest.Config {
	cfg := suiteConfig(policy.Cell)
	cfg.New = func(t *testing.T) runtime.Runtime {
		*made = newImported(t)
		return *made
	}
	return cfg
}

func TestPreloadedLifecycle(t *testing.T) { runtimetest.Lifecycle(t, importedConfig(new(imported))) }

func TestPreloadedContract(t *testing.T) { runtimetest.Contract(t, importedConfig(new(imported))) }

func TestPreloadedPrograms(t *testing.T) {
	var made imported
	runtimetest.Programs(t, runtimetest.ProgramsConfig{Config: importedConfig(&made), Leftovers: func() []string { return made.leftovers(t) }})
}

// leftovers lists what programs left of themselves. What they are forked from stays.
func (i imported) leftovers(t *testing.T) (left []string) {
	n, _ := i.cells.loaded.levels()
	if lent := i.cells.groups.outstanding(); lent > int(n) {
		left = append(left, fmt.Sprintf("%d control groups on loan, %d are those of preloads", lent, n))
	}
	i.cells.mu.Lock()
	defer i.cells.mu.Unlock()
	if slots := len(i.cells.slots); slots > int(n) {
		left = append(left, fmt.Sprintf("%d slots, %d are those of preloads", slots, n))
	}
	return left
}

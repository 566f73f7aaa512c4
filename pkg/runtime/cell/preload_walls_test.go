package cell

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// imported is a runtime whose Python programs all import a preloaded module, written in their code or not.
// Their walls must equal those of other programs.
type imported struct {
	*Runtime
	t *testing.T
}

const importedModule = "asyncio"

func newImported(t *testing.T) imported {
	r := newRuntime(t, func(c *Settings) { c.PreloadMemory = job.GiB })
	return imported{r, t}
}

func (i imported) Acquire(ctx context.Context, key runtime.Key) (runtime.Slot, error) {
	if key.Kind == "python" && key.Image == testenv.Image && key.Isolation == policy.Cell {
		key.Imports, key.CPU = importedModule, policy.Default().CPU
	}
	for {
		made, err := i.Runtime.Acquire(ctx, key)
		if err != nil || key.Imports == "" || made.(*slot).preload != nil {
			return made, err
		}
		made.Close()
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

// leftovers lists the remains of programs. Originals of forks stay.
func (i imported) leftovers(t *testing.T) (left []string) {
	n, _ := i.cells.loaded.levels()
	if lent := i.cells.groups.Outstanding(); lent > int(n) {
		left = append(left, fmt.Sprintf("%d control groups on loan, %d are those of preloads", lent, n))
	}
	i.cells.mu.Lock()
	defer i.cells.mu.Unlock()
	if slots := len(i.cells.slots); slots > int(n) {
		left = append(left, fmt.Sprintf("%d slots, %d are those of preloads", slots, n))
	}
	return left
}

// TestPreloadedNetworksAreNobodys checks that no program has rights over its network, which an earlier
// program used. Its user namespace is inside the network's owner, and the owner contains no program.
func TestPreloadedNetworksAreNobodys(t *testing.T) {
	i := importing{r: newRuntime(t, preloading), imports: "asyncio"}
	i.warm(t)
	p := onlyPreload(t, i.r)
	holder := spaceOf(t, p.slot.sup.PID, "user")
	own := spaceOf(t, p.slot.sup.PID, "net")
	networks, users := map[uint64]int{}, map[uint64]int{}
	const rounds, programs = 3, 3
	for round := range rounds {
		var live []*slot
		now := map[uint64]bool{own.number: true}
		for range programs {
			s, err := p.newSlot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, s)
			network, user := spaceOf(t, s.job.pid, "net"), spaceOf(t, s.job.pid, "user")
			owner := network.related(t, unix.NS_GET_USERNS)
			if around := user.related(t, unix.NS_GET_PARENT); owner.number != around.number || owner.number == user.number {
				t.Errorf("a network belongs to the user namespace %d; a program is in %d, inside %d", owner.number, user.number, around.number)
			}
			if around := owner.related(t, unix.NS_GET_PARENT); around.number != holder.number {
				t.Errorf("the owner of a network is inside %d, and not inside that of the preload, %d", around.number, holder.number)
			}
			if now[network.number] {
				t.Error("two that are there at once have one network")
			}
			now[network.number] = true
			networks[network.number]++
			users[user.number]++
		}
		for _, s := range live {
			s.Close()
		}
		eventually(t, "the networks are given back", func() bool {
			p.nets.mu.Lock()
			defer p.nets.mu.Unlock()
			return len(p.nets.waiting) >= programs
		})
		if round == 0 { // those of the pool have some, too
			clear(networks)
		}
	}
	if len(users) != rounds*programs {
		t.Errorf("%d user namespaces for %d programs", len(users), rounds*programs)
	}
	if len(networks) >= (rounds-1)*programs {
		t.Errorf("%d networks for %d programs", len(networks), (rounds-1)*programs)
	}
}

// space is a namespace, which stays until the test ends.
type space struct {
	fd     int
	number uint64
}

func spaceOf(t *testing.T, pid int, name string) space {
	t.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keepSpace(t, fd)
}

func keepSpace(t *testing.T, fd int) space {
	t.Helper()
	t.Cleanup(func() { _ = unix.Close(fd) })
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		t.Fatal(err)
	}
	return space{fd, stat.Ino}
}

func (s space) related(t *testing.T, request uint) space {
	t.Helper()
	fd, err := unix.IoctlRetInt(s.fd, request)
	if err != nil {
		t.Fatal(err)
	}
	return keepSpace(t, fd)
}

package cell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/egress"
)

// Config configures cells. Everything is required except the numbers, for which zero means none.
type Config struct {
	Dir     string                   // the runtime's directory: it contains the guest, and a directory for each cell below cells
	Images  *image.Store             // source of the cells' root file systems
	Engine  *engine.Engine           // creates the containers
	Cgroups *cgroup.Hierarchy        // of the cells
	Group   func(name string) string // returns the path of a control group
	Share   guest.Share              // each job's share of host-wide kernel resources
	Network *egress.Network          // of the jobs
	// Find returns the image of a key, held until release.
	Find func(context.Context, runtime.Key) (img *image.Image, release func(), err error)
	// Another names a new sandbox: a token for its directory, a name for its other host objects, and
	// its first uid.
	Another func() (token, name string, uid int)
	// LimitWatches sets a container's share of inotify, given one of its processes.
	LimitWatches func(ctx context.Context, pid int) error
	// Background runs background tasks. After all of them have ended, the owner calls Destroy.
	Background *background.Group

	Warm       int           // the most warm slots for all keys
	WarmIdle   time.Duration // how long a key's slots stay warm after its last use
	WarmMemory job.Size      // limit of the memory of warm slots; 0: unlimited
	Jobs       int           // slots after which a cell is replaced
	Age        time.Duration // age at which a cell is replaced
	Zygotes    int           // interpreters of a cell for forks
	// PreloadMemory limits the memory of all preloaded interpreters, and of each one during its
	// imports. PreloadIdle is how long one stays after its last use.
	PreloadMemory job.Size
	PreloadIdle   time.Duration
}

const (
	// makeTime limits the creation of a cell on an overloaded machine.
	makeTime = time.Minute
	// cleanTime limits the destruction of a cell, in the background.
	cleanTime = 30 * time.Second
)

// layBare creates the root of cells for tenants' images, with mount points only.
func layBare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,nr_inodes=64,mode=0755"); err != nil {
		return fmt.Errorf("mount an empty root: %w", err)
	}
	for _, d := range []string{"proc", "sys", "dev", "run/assay"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount an empty root: %w", err)
	}
	return nil
}

// Memory of a waiting slot in bytes: the guest of a box, and an interpreter in it.
const (
	boxWeight     = 1 << 20
	forkWeight    = 3 << 20
	preloadWeight = 2 << 20 // additional page tables
)

// weigh returns the weight of a cell's slot.
func weigh(k slotKey) int64 {
	if k.preload != "" {
		return boxWeight + forkWeight + preloadWeight
	}
	if k.zygote != 0 {
		return boxWeight + forkWeight
	}
	return boxWeight
}

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

// Config says what cells are made with, and how many there are. All of it is required
// but for the numbers, of which a zero means none.
type Config struct {
	Dir     string                   // of the runtime: its guest is in it, and each cell gets a directory below cells
	Images  *image.Store             // whose root file systems cells have
	Engine  *engine.Engine           // makes their containers
	Cgroups *cgroup.Hierarchy        // holds their control groups
	Group   func(name string) string // names one of these
	Share   guest.Share              // of each job, of what the kernel counts for the whole host
	Network *egress.Network          // that jobs reach
	// Find returns the image of a key, held until it is released.
	Find func(context.Context, runtime.Key) (img *image.Image, release func(), err error)
	// Another names one more sandbox: for its directory, for everything else on this host, and
	// the first of its ids.
	Another func() (token, name string, uid int)
	// LimitWatches gives the container of a process its share of inotify.
	LimitWatches func(ctx context.Context, pid int) error
	// Background is what goes on beside calls, and whose end is the cells': Close, and once all in it
	// have left, Destroy.
	Background *background.Group

	Warm       int           // the most slots that are kept ready, all keys together
	WarmIdle   time.Duration // how long those of a key are kept after its last use
	WarmMemory job.Size      // bounds the memory of slots that are ready; 0: no bound
	Jobs       int           // a cell is replaced after so many slots
	Age        time.Duration // and at this age
	Zygotes    int           // interpreters that a cell keeps to fork from
	// PreloadMemory bounds the memory of interpreters that have imported what programs do, all
	// of them together and each one while it imports. PreloadIdle is how long one stays after
	// its last use.
	PreloadMemory job.Size
	PreloadIdle   time.Duration
}

const (
	// makeTime bounds the making of a cell on a machine without any time left.
	makeTime = time.Minute
	// cleanTime bounds taking one apart, which goes on in the background.
	cleanTime = 30 * time.Second
)

// layBare makes the root of cells of which a tenant brought the image: nothing but
// places to mount something on.
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

// What a slot takes while it waits, in bytes: the guest of a box, and an interpreter in it.
const (
	boxWeight     = 1 << 20
	forkWeight    = 3 << 20
	preloadWeight = 2 << 20 // more of page tables
)

// weigh is Weigh for the slots of cells.
func weigh(k slotKey) int64 {
	if k.preload != "" {
		return boxWeight + forkWeight + preloadWeight
	}
	if k.zygote != 0 {
		return boxWeight + forkWeight
	}
	return boxWeight
}

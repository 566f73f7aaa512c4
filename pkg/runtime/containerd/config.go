package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/egress"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// Config says which containerd to use and how. Address, StateDir and Guest are
// required; DefaultConfig has the rest.
type Config struct {
	Address   string // containerd's socket
	Namespace string // containerd namespace of our containers and images
	StateDir  string // mounts and sockets are below it, in Run; nothing there outlives the runtime
	Guest     string // path of the static guest binary

	// ImageArchives are OCI archives that are imported when the runtime
	// starts, unless they are there already.
	ImageArchives []string
	// TrustedImages are images of registries that are as good as the operator's own:
	// whole names without a tag (any) or with one, or beginnings that end in a slash.
	TrustedImages []string
	// ImageRegistries are the registries that images may be pulled from: host[:port],
	// with the beginning of a path or without, and http:// before one that has no TLS.
	// Empty: only images that are there. ImageSize bounds each, as it is transferred and
	// unpacked.
	ImageRegistries []string
	ImageSize       job.Size
	// ImageMirrors are registries that are asked first: REGISTRY=MIRROR, of which the
	// first is a host of ImageRegistries and the second like those. ImageCredentials is
	// a file of the shape of docker's config.json, read for each pull. ImageAlways are names,
	// as TrustedImages, that registries are asked for again, a minute after they were.
	ImageMirrors     []string
	ImageCredentials string
	ImageAlways      []string
	// ImagesMost bounds what pulled images take together: above it those go again that
	// were used longest ago. Those that are in use stay, and those of the operator, which
	// do not count.
	ImagesMost job.Size

	Runtime string // containerd runtime handler of isolation task
	Runc    string // path of runc; empty: found by the shim
	// Runsc is the path of gVisor's runsc, for isolation gvisor; empty: there is
	// none.
	Runsc string
	// VMRuntime is the handler of isolation vm, such as io.containerd.kata.v2;
	// empty: there is none.
	VMRuntime string
	// WorkerID is a label on every container, for people.
	WorkerID string

	// Warm is the most slots that are kept ready ahead of demand, all keys
	// together; 0 means none. WarmIdle is how long a key's slots stay ready
	// after its last use.
	Warm     int
	WarmIdle time.Duration
	// CellWarm is Warm for the slots of cells, which cost a fortieth.
	CellWarm int
	// WarmMemory bounds the memory of the ready slots of either kind, in bytes;
	// 0: no bound.
	WarmMemory job.Size
	// A cell is replaced by a fresh one after CellJobs slots or at CellAge.
	CellJobs int
	CellAge  time.Duration
	// Zygotes is how many interpreters a cell keeps to fork from.
	Zygotes int
	// PreloadMemory bounds the memory of interpreters that have imported what python
	// programs of a cell do, all of them together and each one while it imports; above it
	// those go that were used longest ago. 0: there are none. PreloadIdle is how long
	// one stays after its last use.
	PreloadMemory job.Size
	PreloadIdle   time.Duration
	// Jobs is how many are expected at once. What the kernel counts for the whole
	// host is divided by it: see hostcheck.ShareOf.
	Jobs int
	// Parallel is how many containers are made or destroyed at once.
	Parallel int

	// Environments is the directory in which environments are kept between runs,
	// this runtime's alone; empty: they last as long as the runtime. EnvironmentSize
	// is the largest that is built, EnvironmentTime how long that may take, and
	// EnvironmentsMost bounds all of them.
	Environments     string
	EnvironmentSize  job.Size
	EnvironmentTime  time.Duration
	EnvironmentsMost job.Size
	Index            environment.Index // where packages come from
	// Shared is where environments that other workers have built are found, and those go
	// that are built here; nil: each worker builds its own.
	Shared environment.Shared

	// Egress is what the operator says about the network that jobs reach through
	// their proxies. Left alone, they reach public addresses and nothing else.
	Egress egress.Operator

	Holes []string // of this host that are known: see policy.Host

	CgroupRoot string // where the cgroup file system is mounted
}

// EnvironmentSize is the largest environment that is built where all of them take most: a
// tenth of that. A build has as much room in memory, which a tenant may fill, so it is a
// quarter of this host's, or of what this container may have of it, at most.
func EnvironmentSize(most job.Size) job.Size { return environmentSize(most, hostcheck.Memory()) }

func environmentSize(most, memory job.Size) job.Size {
	if memory == 0 { // unknown
		return most / 10
	}
	return min(most/10, memory/4)
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		Address:     "/run/containerd/containerd.sock",
		Namespace:   "assay",
		StateDir:    "/run/assay/state",
		Runtime:     "io.containerd.runc.v2",
		Warm:        2 * runtime.NumCPU(),
		CellWarm:    16 * runtime.NumCPU(),
		WarmMemory:  hostcheck.Memory() / 8,
		CellJobs:    100_000,
		CellAge:     time.Hour,
		Zygotes:     1,
		PreloadIdle: 5 * time.Minute,
		WarmIdle:    time.Minute,
		Parallel:    2 * runtime.NumCPU(),
		Jobs:        8 * runtime.NumCPU(),
		CgroupRoot:  cgroup.DefaultRoot,

		PreloadMemory:    hostcheck.Memory() / 16,
		ImageSize:        image.DefaultMost,
		ImagesMost:       40 * job.GiB,
		EnvironmentSize:  2 * job.GiB,
		EnvironmentTime:  10 * time.Minute,
		EnvironmentsMost: 20 * job.GiB,
		Index:            environment.PyPI,
	}
}

// withDefaults fills in what is empty, except Warm, CellWarm and PreloadMemory, whose zero means something.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	for _, f := range []struct{ have, def *string }{
		{&c.Address, &d.Address}, {&c.Namespace, &d.Namespace}, {&c.StateDir, &d.StateDir},
		{&c.Runtime, &d.Runtime}, {&c.CgroupRoot, &d.CgroupRoot},
	} {
		if *f.have == "" {
			*f.have = *f.def
		}
	}
	if c.WarmIdle == 0 {
		c.WarmIdle = d.WarmIdle
	}
	if c.ImagesMost == 0 {
		c.ImagesMost = d.ImagesMost
	}
	if c.ImageSize == 0 {
		c.ImageSize = d.ImageSize
	}
	if c.EnvironmentSize == 0 {
		c.EnvironmentSize = d.EnvironmentSize
	}
	if c.EnvironmentTime == 0 {
		c.EnvironmentTime = d.EnvironmentTime
	}
	if c.EnvironmentsMost == 0 {
		c.EnvironmentsMost = d.EnvironmentsMost
	}
	if c.Index.URL == "" {
		c.Index = d.Index
	}
	if c.CellJobs == 0 {
		c.CellJobs = d.CellJobs
	}
	if c.CellAge == 0 {
		c.CellAge = d.CellAge
	}
	if c.Zygotes == 0 {
		c.Zygotes = d.Zygotes
	}
	if c.PreloadIdle == 0 {
		c.PreloadIdle = d.PreloadIdle
	}
	if c.Jobs == 0 {
		c.Jobs = d.Jobs
	}
	if c.Parallel == 0 {
		c.Parallel = d.Parallel
	}
	return c
}

// Run is the directory below a state directory that is a runtime's own: what is in
// it is unmounted and removed. Beside it an operator may keep what they like there,
// such as archives of images and built environments.
const Run = "run"

// checkOwn refuses paths of the operator's that would be removed with dir.
func (c Config) checkOwn(dir string) error {
	for _, p := range append([]string{c.Environments}, c.ImageArchives...) {
		if p == "" {
			continue
		}
		if rel, err := filepath.Rel(dir, realPath(p)); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%s is in %s, which the worker removes when it stops; keep it elsewhere, also beside that", p, dir)
		}
	}
	return nil
}

// realPath is path without symbolic links, as far as it exists.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
}

// stateDir makes the state directory and returns its real path.
//
// Containers of a user namespace reach their root file system as a user who is
// nobody on the host, so every directory on the way must let others pass. Where
// one does not (a data directory below /root, say), a directory below /run that
// is named after the asked one is used instead.
func (c Config) stateDir() (string, error) {
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if !passable(filepath.Dir(dir)) {
		dir = filepath.Join("/run/assay", instance(dir))
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, Run), 0o711); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	return dir, os.Chmod(filepath.Join(dir, Run), 0o711)
}

// passable reports whether others may pass through dir and all its existing
// parents.
func passable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err == nil && st.Mode&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

// instance names a state directory wherever a short name is needed: control
// groups, labels and container names of the host.
func instance(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:5])
}

// lock makes sure that no other runtime uses dir. It is released by closing the
// file, and so by the end of the process.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("state directory %s is in use by another worker; give each its own", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

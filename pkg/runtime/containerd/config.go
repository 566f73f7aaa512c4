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

// Config configures a Runtime. Address, StateDir and Guest are required; DefaultConfig has the
// rest.
type Config struct {
	Address   string // containerd's socket
	Namespace string // containerd namespace of our containers and images
	StateDir  string // mounts and sockets are below it, in Run; nothing there outlives the runtime
	Guest     string // path of the static guest binary
	Disks     string // directory for the disks of machines, which end with the runtime; empty: below StateDir

	// ImageArchives are OCI archives to import when the runtime starts, unless their images exist.
	ImageArchives []string
	// TrustedImages are images of registries that count as the operator's own: full names with a tag
	// or without one (any), or prefixes that end in a slash.
	TrustedImages []string
	// ImageRegistries are the registries for pulls: host[:port], optionally with a path prefix, and
	// with http:// for a registry without TLS. Empty: only existing images. ImageSize limits each
	// image, both packed and unpacked.
	ImageRegistries []string
	ImageSize       job.Size
	// ImageMirrors are preferred registries: REGISTRY=MIRROR, where the first is a host of
	// ImageRegistries and the second has the same format. ImageCredentials is a file in the format of
	// docker's config.json, read for each pull. ImageAlways are names, like TrustedImages, that are
	// checked at the registry again after a minute.
	ImageMirrors     []string
	ImageCredentials string
	ImageAlways      []string
	// ImagesMost limits the total size of pulled images. Above it the least recently used are
	// removed, except images in use. The operator's images are kept and not counted.
	ImagesMost job.Size

	Runtime string // containerd runtime handler of isolation task
	Runc    string // path of runc; empty: found by the shim
	// Runsc is the path of gVisor's runsc, for isolation gvisor. Empty: none.
	Runsc string
	// VMRuntime is the handler of isolation vm, such as io.containerd.kata.v2. Empty: none.
	VMRuntime string
	// WorkerID is a label on every container, for people.
	WorkerID string

	// Warm is the most warm slots for all keys together; 0 means none. WarmIdle is how long a key's
	// slots stay warm after its last use.
	Warm     int
	WarmIdle time.Duration
	// CellWarm is Warm for the slots of cells, which cost a fortieth.
	CellWarm int
	// WarmMemory limits the memory of warm slots of either kind, in bytes; 0: unlimited.
	WarmMemory job.Size
	// A cell is replaced after CellJobs slots or at CellAge.
	CellJobs int
	CellAge  time.Duration
	// Zygotes is how many interpreters a cell keeps for forks.
	Zygotes int
	// PreloadMemory limits the memory of all preloaded interpreters together, and of each one during
	// its imports. Above it the least recently used are removed. 0 disables them. PreloadIdle is how
	// long one stays after its last use.
	PreloadMemory job.Size
	PreloadIdle   time.Duration
	// Jobs is the expected number of concurrent jobs, by which host-wide kernel resources are
	// divided: see hostcheck.ShareOf.
	Jobs int
	// Parallel is how many containers are created or destroyed at once.
	Parallel int

	// Environments is the directory for environments between runs, exclusive to this runtime; empty:
	// they end with the runtime. EnvironmentSize limits each environment, EnvironmentTime its build
	// time, and EnvironmentsMost the total size.
	Environments     string
	EnvironmentSize  job.Size
	EnvironmentTime  time.Duration
	EnvironmentsMost job.Size
	Index            environment.Index // source of packages
	// Shared is the exchange of environments with other workers. Nil: each worker builds its own.
	Shared environment.Shared

	// Egress is the operator's configuration of the jobs' proxies. By default they reach public
	// addresses only.
	Egress egress.Operator

	Holes []string // known vulnerabilities of this host: see policy.Host

	CgroupRoot string // mount point of the cgroup file system
}

// EnvironmentSize returns the largest environment to build, given the limit of their total: a
// tenth. A build takes as much memory, which a tenant may fill. So the result is at most a quarter
// of the memory of this host or container.
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

// withDefaults sets empty fields, except Warm, CellWarm and PreloadMemory, whose zero has a
// meaning.
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

// Run is the directory below a state directory that belongs to a runtime: its content is unmounted
// and removed. Operators may keep other files beside it, such as archives of images and built
// environments.
const Run = "run"

// checkOwn rejects the operator's paths inside dir, which would be removed.
func (c Config) checkOwn(dir string) error {
	for _, p := range append([]string{c.Environments}, c.ImageArchives...) {
		if p == "" {
			continue
		}
		if rel, err := filepath.Rel(dir, realPath(p)); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%s is in %s, which the worker removes when it stops; use another directory", p, dir)
		}
	}
	return nil
}

// realPath resolves symbolic links in path, as far as it exists.
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

// stateDir creates the state directory and returns its real path.
//
// Containers of a user namespace reach their root file system as an unprivileged host user, so
// every parent directory must be searchable by others. If one is not (such as a data directory
// below /root), stateDir uses a directory below /run instead, named after the configured one.
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

// passable reports whether dir and all its existing parents are searchable by others.
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

// instance returns a short name of a state directory, for control groups, labels and container
// names.
func instance(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:5])
}

// lock ensures that no other runtime uses dir. Closing the file, or the end of the process,
// releases it.
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

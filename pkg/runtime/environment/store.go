package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Config configures a Store.
type Config struct {
	// Dir is the exclusive directory of the environments. Each is a subdirectory:
	//
	//	layer/     the files that the packages add to the root file system
	//	lock.json  its description; written last, so that an incomplete environment is ignored
	Dir       string
	Size      job.Size      // limit of one environment
	Time      time.Duration // time limit of a build
	Most      job.Size      // limit of their total
	OpenFiles int           // highest limit of this host for one program
	Index     Index         // source of packages
	Shared    Shared        // exchange with other workers; nil: each worker builds its own

	// Optional callbacks for builds, fetches, and removals to make room.
	Builds, Fetches Count
	Removed         func(ctx context.Context, name string, bytes int64)
}

// Store manages the environments of one worker. All methods are safe for concurrent use.
type Store struct {
	cfg   Config
	host  Host
	group singleflight.Group

	turns, sources *turns // limit concurrent builds, whose memory is outside of all jobs' promises

	shared sharing // with other workers

	room sync.Mutex  // held during changes in the directory and mounts
	full atomic.Bool // above its limit, because everything was in use

	mu     sync.Mutex
	ready  map[string]*mounted  // by request
	failed map[string]failedEnv // recent failures
}

// mounted is an environment that is ready for jobs.
type mounted struct {
	name   string // of its directory
	digest string
	image  Image

	// Guarded by the store's lock: the time of its last recorded use, and the lockfile of each list
	// of packages with this result, by name. Directories of other names may be gone.
	noted time.Time
	names map[string]lockfile
}

// failedEnv is a failed build, cached so that a batch of a thousand jobs does not repeat it.
type failedEnv struct {
	err   error
	until time.Time
}

const (
	failedTTL  = 30 * time.Second
	failedMost = 1000
)

// Open returns the environments in an existing directory. It removes incomplete ones, and old ones
// above the limit. None may be mounted yet.
func Open(cfg Config, host Host) (*Store, error) {
	s := &Store{
		cfg: cfg, host: host, turns: newTurns(buildsAtOnce), sources: newTurns(buildsAtOnce), shared: newSharing(cfg.Shared),
		ready: map[string]*mounted{}, failed: map[string]failedEnv{},
	}
	return s, s.trim(cfg.Most)
}

// Get returns base with a tenant's packages, one requirement a line. Concurrent callers share one
// build. The error is a *runtime.BuildError if the packages are unavailable. It wraps ErrCollected
// if the caller should retry, and runtime.ErrImage if there is temporarily no room.
func (s *Store) Get(ctx context.Context, base Base, tenant, packages string) (Image, error) {
	m, err := s.get(ctx, base, tenant, packages)
	if err != nil {
		return nil, err
	}
	s.note(m)
	return m.image, nil
}

func (s *Store) get(ctx context.Context, base Base, tenant, packages string) (*mounted, error) {
	ask := ask(base, tenant, packages)
	s.mu.Lock()
	m, failed := s.ready[ask.shared], s.failed[ask.own]
	if m == nil {
		m = s.ready[ask.own]
	}
	s.mu.Unlock()
	switch {
	case m != nil:
		return m, nil
	case time.Now().Before(failed.until):
		return nil, failed.err
	}
	// Callers share the work, but each with its own context. Tenants do not wait for each other.
	shared := s.group.DoChan(ask.own, func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(s.host.Context(), cancel)()
		return s.load(ctx, base, ask)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an environment: %w", context.Cause(ctx))
	case r := <-shared:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*mounted), nil
	}
}

// load returns a kept environment, or builds it.
func (s *Store) load(ctx context.Context, base Base, ask envRequest) (*mounted, error) {
	leave, err := s.host.Join()
	if err != nil {
		return nil, err
	}
	defer leave()
	release, err := base.Image.Hold()
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := s.use(base, func() (string, lockfile, error) { return s.find(ask) })
	if errors.Is(err, os.ErrNotExist) {
		m, err = s.make(ctx, base, ask)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if failure := new(runtime.BuildError); errors.As(err, &failure) {
		if len(s.failed) >= failedMost {
			clear(s.failed)
		}
		s.failed[ask.own] = failedEnv{err, time.Now().Add(failedTTL)}
	}
	if err != nil {
		return nil, err
	}
	delete(s.failed, ask.own)
	return m, nil
}

// make fetches or builds an environment and mounts it. It removes others if necessary.
func (s *Store) make(ctx context.Context, base Base, ask envRequest) (*mounted, error) {
	dir, l, fetched := s.fetch(ctx, base, ask)
	if !fetched {
		var ended func(int64, error)
		var err error
		ctx, ended = s.cfg.Builds.begin(ctx, base.Name)
		dir, l, err = s.build(ctx, base, ask)
		ended(l.Bytes, err)
		if err != nil {
			return nil, err
		}
	}
	m, err := s.use(base, func() (string, lockfile, error) { return dir, l, nil })
	if errors.Is(err, os.ErrNotExist) {
		err = ErrCollected
	}
	if err == nil {
		_, err = s.collect(ask.tenant, filepath.Base(dir))
	}
	return m, err
}

// use mounts the environment that find returns.
func (s *Store) use(base Base, find func() (dir string, l lockfile, err error)) (*mounted, error) {
	s.room.Lock()
	defer s.room.Unlock()
	dir, l, err := find()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	m, err := s.mount(base, dir, &l)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(dir)
	s.mu.Lock()
	s.ready[name], m.names[name] = m, l
	s.mu.Unlock()
	s.offer(m, name, &l)
	return m, nil
}

// mount mounts the environment in dir, unless it is mounted under another name: different
// requirements may have the same result.
func (s *Store) mount(base Base, dir string, l *lockfile) (*mounted, error) {
	digest := l.digest(base)
	s.mu.Lock()
	for _, m := range s.ready {
		if m.digest == digest {
			s.mu.Unlock()
			return m, nil
		}
	}
	s.mu.Unlock()
	m := &mounted{name: filepath.Base(dir), digest: digest, noted: time.Now(), names: map[string]lockfile{}}
	var err error
	m.image, err = base.Image.Mount(Layer{Name: m.name, Dir: filepath.Join(dir, layerName), Digest: digest, Packages: l.Packages})
	return m, err
}

// note occasionally records the use of an environment, for the next run of the worker and for other
// workers.
func (s *Store) note(m *mounted) {
	s.mu.Lock()
	now := time.Now()
	due := now.Sub(m.noted) > time.Minute
	var names map[string]lockfile
	if due {
		m.noted, names = now, maps.Clone(m.names)
	}
	s.mu.Unlock()
	if !due {
		return
	}
	if _, err := readLock(filepath.Join(s.cfg.Dir, m.name)); err != nil {
		return // it is gone
	}
	for name, l := range names {
		s.offer(m, name, &l)
	}
}

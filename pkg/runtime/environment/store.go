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

// Config says where environments are kept, where they come from and how large they may be.
type Config struct {
	// Dir is the directory that they are kept in, nobody else's. Each is a directory there:
	//
	//	layer/     what the packages added to the root file system
	//	lock.json  what is in it; written last, so that half an environment is none
	Dir       string
	Size      job.Size      // of the largest that is built or fetched
	Time      time.Duration // that a build may take
	Most      job.Size      // of all of them
	OpenFiles int           // most that this host gives to one program
	Index     Index         // where packages come from
	Shared    Shared        // where those are that others have built; nil: each worker builds its own

	// What is told of them, each if it is not nil: builds, fetches, and those that were
	// removed to make room.
	Builds, Fetches Count
	Removed         func(ctx context.Context, name string, bytes int64)
}

// Store has the environments of one worker. All methods are safe for concurrent use.
type Store struct {
	cfg   Config
	host  Host
	group singleflight.Group

	turns, sources *turns // bound building: it takes memory that no job has promised

	shared sharing // with other workers

	room sync.Mutex  // held while something in the directory comes, goes or is mounted
	full atomic.Bool // it takes more than it may: all was in use

	mu     sync.Mutex
	ready  map[string]*mounted  // by what was asked for
	failed map[string]failedEnv // lately
}

// mounted is an environment that jobs can run on.
type mounted struct {
	name   string // of its directory
	digest string
	image  Image

	// Guarded by the lock of the store: when its use was last written down, and what was read of each list of packages that
	// comes to it, by the name of that. The directories of names other than its own may be gone.
	noted time.Time
	names map[string]lockfile
}

// failedEnv is a build that failed. A batch of a thousand jobs that want what
// cannot be had does not try a thousand times.
type failedEnv struct {
	err   error
	until time.Time
}

const (
	failedTTL  = 30 * time.Second
	failedMost = 1000
)

// Open returns the environments in a directory that exists. What is half there is removed,
// and what is more than there may be. Nothing of it must be mounted yet.
func Open(cfg Config, host Host) (*Store, error) {
	s := &Store{
		cfg: cfg, host: host, turns: newTurns(buildsAtOnce), sources: newTurns(buildsAtOnce), shared: newSharing(cfg.Shared),
		ready: map[string]*mounted{}, failed: map[string]failedEnv{},
	}
	return s, s.trim(cfg.Most)
}

// Get returns base with packages, one requirement a line, for a tenant. It is made, if need
// be, once for all who wait for it. The error is a *runtime.BuildError if the packages cannot
// be had; it wraps ErrCollected if the caller should ask again, and runtime.ErrImage if there
// is no room at the moment.
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
	// Whoever waits shares the work, but gives up on its own terms. Tenants do not
	// wait for each other.
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
func (s *Store) load(ctx context.Context, base Base, ask asked) (*mounted, error) {
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

// make fetches an environment, or builds it, and makes it ready. Others go for it, if
// need be.
func (s *Store) make(ctx context.Context, base Base, ask asked) (*mounted, error) {
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

// use makes the environment ready that find finds.
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

// mount mounts the environment in dir, unless it is mounted under another name: two lists
// of requirements may come to the same.
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

// note writes down now and then that an environment is used, for the next run of the
// worker and for others.
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
		return // it is gone, and will not be missed
	}
	for name, l := range names {
		s.offer(m, name, &l)
	}
}

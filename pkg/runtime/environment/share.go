package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Shared exchanges environments between the workers of a fleet. A Store does not trust it: fetched
// data must match the digest, which the Store computes itself.
type Shared interface {
	// Find returns the digest that enough other workers have reported for a name. Empty: not enough.
	Find(ctx context.Context, name string) (digest string, err error)
	// Open opens a stored environment. Reading ends with ctx. The error wraps job.ErrNotFound if it
	// is not stored.
	Open(ctx context.Context, name, digest string) (io.ReadCloser, error)
	// Offer reports a build of this worker and, unless it is stored already, stores the output of
	// write. With replace it overwrites the stored object, which had different content.
	Offer(ctx context.Context, name, digest string, replace bool, write func(io.Writer) error) error
}

const (
	findTime = 5 * time.Second // time limit of Find; after it the worker builds
	// fetchShare is the divisor of the build time for a fetch. A stalled store costs a job no more.
	fetchShare = 4
	// offerAgain is the interval between repeated reports of an environment in use, because old
	// reports expire.
	offerAgain = 24 * time.Hour
	offersMost = 2 * storeMost // recorded reports
)

// sharing is the state of the exchange. Its zero value disables it.
type sharing struct {
	with    Shared
	turns   *turns               // for fetches, independent of builds
	busy    chan struct{}        // held by the current offer: one at a time
	offered map[string]time.Time // time by name; guarded by the store's lock
	spoiled map[string]bool      // names of wrong objects; likewise
}

func newSharing(with Shared) sharing {
	return sharing{with: with, turns: newTurns(buildsAtOnce), busy: make(chan struct{}, 1),
		offered: map[string]time.Time{}, spoiled: map[string]bool{}}
}

// shareName returns the fleet-wide name of an environment: a hash of the request and other factors
// of the result. An image of several architectures has one digest, and package names are equal in
// all indexes.
func (s *Store) shareName(name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", name, goruntime.GOARCH, s.cfg.Index.URL))
	return hex.EncodeToString(sum[:])
}

// fetch fetches an environment built by others, and reports success. It logs problems; then the
// worker builds.
func (s *Store) fetch(ctx context.Context, base Base, ask envRequest) (dir string, l lockfile, ok bool) {
	if s.shared.with == nil {
		return "", l, false
	}
	for _, private := range []bool{false, true} {
		name := ask.name(private)
		digest, err := s.findShared(ctx, name)
		if err != nil {
			slog.WarnContext(ctx, "shared environments not looked up; building it here", "image", base.Name, "error", err)
			return "", l, false
		}
		if digest == "" {
			continue
		}
		counting, ended := s.cfg.Fetches.begin(ctx, base.Name)
		dir, l, err = s.fetchOne(counting, base, ask, private, digest)
		ended(l.Bytes, err)
		if err == nil {
			return dir, l, true
		}
		slog.WarnContext(ctx, "shared environment not used; building it here", "image", base.Name, "name", name, "digest", digest, "error", err)
		if runtime.Refused(err) { // the content is wrong, not just unreachable
			s.mu.Lock()
			s.shared.spoil(name)
			s.mu.Unlock()
		}
	}
	return "", lockfile{}, false
}

// name returns the name of an environment on disk.
func (a envRequest) name(private bool) string {
	if private {
		return a.own
	}
	return a.shared
}

func (s *Store) findShared(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	return s.shared.with.Find(ctx, s.shareName(name))
}

// fetchOne fetches the environment with a digest and keeps it if it matches. The error is a
// *runtime.BuildError if it does not.
func (s *Store) fetchOne(ctx context.Context, base Base, ask envRequest, private bool, digest string) (dir string, l lockfile, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Time/fetchShare)
	defer cancel()
	done, err := s.shared.turns.take(ctx, ask.tenant)
	if err != nil {
		return "", l, err
	}
	defer done()
	if err := s.makeRoom(ask.tenant); err != nil {
		return "", l, err
	}
	work, err := s.workDir()
	if err != nil {
		return "", l, err
	}
	defer os.RemoveAll(work)
	said, err := s.receive(ctx, ask.name(private), digest, filepath.Join(work, "fetched"))
	if err != nil {
		return "", l, err
	}
	l = lockfile{Packages: said.Packages, Tenant: ask.tenant, Private: said.Private, Fetched: true}
	if l.Private != private {
		return "", l, buildError("it belongs or belonged to another tenant")
	}
	from, err := os.OpenRoot(filepath.Join(work, "fetched"))
	if err != nil {
		return "", l, fmt.Errorf("examine the fetched environment: %w", err)
	}
	defer from.Close()
	if l.Bytes, l.Tree, err = copyLayer(from, filepath.Join(work, layerName), base, int64(s.cfg.Size)); err != nil {
		return "", l, err
	}
	if have := l.digest(base); have != digest {
		return "", l, buildError("its digest is %s, and others built %s", have, digest)
	}
	dir = filepath.Join(s.cfg.Dir, ask.name(private))
	return dir, l, s.keep(work, dir, &l)
}

// receive unpacks the object to the new directory to.
func (s *Store) receive(ctx context.Context, name, digest, to string) (said travelling, err error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return said, fmt.Errorf("fetch an environment: %w", err)
	}
	r, err := s.shared.with.Open(ctx, s.shareName(name), digest)
	if err != nil {
		return said, fmt.Errorf("fetch an environment: %w", err)
	}
	defer r.Close()
	said, err = unpack(r, to, int64(s.cfg.Size), layerFiles)
	if ctx.Err() != nil {
		return said, fmt.Errorf("fetch an environment: %w", context.Cause(ctx))
	}
	return said, err
}

func (s *sharing) spoil(name string) {
	if len(s.spoiled) >= failedMost {
		clear(s.spoiled)
	}
	s.spoiled[name] = true
}

// offer occasionally reports an environment in use to the fleet, if it was built here. A fetched
// one would add no information. It runs in the background.
func (s *Store) offer(m *mounted, name string, l *lockfile) {
	if s.shared.with == nil || l.Fetched {
		return
	}
	due, replace := s.offerDue(name)
	if !due && !replace {
		return
	}
	leave, err := s.host.Join()
	if err != nil {
		return
	}
	own := *l
	own.Packages = slices.Clone(l.Packages)
	go func() {
		defer leave()
		s.offered(name, s.offerOne(m, name, &own, replace))
	}()
}

// offerDue reports whether to offer an environment again, and records that. replace reports whether
// the stored object is wrong.
func (s *Store) offerDue(name string) (due, replace bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due = time.Since(s.shared.offered[name]) >= offerAgain
	if due {
		if len(s.shared.offered) >= offersMost {
			clear(s.shared.offered)
		}
		s.shared.offered[name] = time.Now()
	}
	return due, s.shared.spoiled[name]
}

// offered records the result of an offer. After a failure, the next recorded use retries.
func (s *Store) offered(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.shared.spoiled, name)
		return
	}
	delete(s.shared.offered, name)
	if !errors.Is(err, ErrCollected) && s.host.Context().Err() == nil {
		slog.WarnContext(s.host.Context(), "environment not shared", "name", name, "error", err)
	}
}

// offerOne offers an environment while it is held. It packs the mounted directory, which exists
// while it is held, regardless of name.
func (s *Store) offerOne(m *mounted, name string, l *lockfile, replace bool) error {
	release, err := m.image.Hold()
	if err != nil {
		return err
	}
	defer release()
	select {
	case s.shared.busy <- struct{}{}:
	case <-s.host.Context().Done():
		return context.Cause(s.host.Context())
	}
	defer func() { <-s.shared.busy }()
	ctx, cancel := context.WithTimeout(s.host.Context(), s.cfg.Time)
	defer cancel()
	err = s.shared.with.Offer(ctx, s.shareName(name), m.digest, replace, func(w io.Writer) error {
		return pack(w, filepath.Join(s.cfg.Dir, m.name), l)
	})
	if errors.Is(err, job.ErrInvalid) {
		err = fmt.Errorf("%w; dispatchers are older, or newer, than this worker", err)
	}
	return err
}

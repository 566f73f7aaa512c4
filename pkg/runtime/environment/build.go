package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime"
)

const (
	buildsAtOnce = 2           // builds of wheels, and as many from source
	startTime    = time.Minute // to start a sandbox on an overloaded machine
)

// build builds an environment and returns its directory.
func (s *Store) build(ctx context.Context, base Base, ask envRequest) (dir string, l lockfile, err error) {
	turn := &buildTurn{wheels: s.turns, sources: s.sources, tenant: ask.tenant}
	if turn.done, err = s.turns.take(ctx, ask.tenant); err != nil {
		return "", l, err
	}
	defer func() { turn.done() }()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Time+startTime)
	defer cancel()
	if err := s.makeRoom(ask.tenant); err != nil {
		return "", l, err
	}
	work, err := s.workDir()
	if err != nil {
		return "", l, err
	}
	defer os.RemoveAll(work)
	wheels, err := s.gather(ctx, turn, base, ask.packages, filepath.Join(work, "wheels"))
	if err != nil {
		return "", l, err
	}
	l = lockfile{Tenant: ask.tenant}
	for i := range wheels {
		l.Packages = append(l.Packages, wheels[i].record())
		l.Private = l.Private || wheels[i].built
	}
	slices.Sort(l.Packages)
	if l.Bytes, l.Tree, err = s.install(ctx, base, wheels, filepath.Join(work, layerName)); err != nil {
		return "", l, err
	}
	dir = filepath.Join(s.cfg.Dir, ask.shared)
	if l.Private {
		dir = filepath.Join(s.cfg.Dir, ask.own)
	}
	return dir, l, s.keep(work, dir, &l)
}

// workDir creates a directory for a build, with an empty layer.
func (s *Store) workDir() (string, error) {
	work, err := os.MkdirTemp(s.cfg.Dir, "build-")
	if err == nil {
		if err = errors.Join(os.Chmod(work, 0o755), os.Mkdir(filepath.Join(work, layerName), 0o755)); err != nil {
			_ = os.RemoveAll(work)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make an environment: %w", err)
	}
	return work, nil
}

// keep moves a build to its permanent place. Another tenant may have stored the same shared
// environment earlier.
func (s *Store) keep(work, dir string, l *lockfile) error {
	raw, err := json.Marshal(l)
	if err == nil {
		err = errors.Join(os.RemoveAll(filepath.Join(work, "wheels")), os.RemoveAll(filepath.Join(work, "fetched")), os.WriteFile(filepath.Join(work, lockName), raw, 0o644))
	}
	if err == nil {
		err = os.Rename(work, dir)
	}
	if errors.Is(err, os.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		*l, err = readLock(dir)
	}
	if err != nil {
		return fmt.Errorf("keep an environment: %w", err)
	}
	return nil
}

// buildError returns the error for unavailable packages.
func buildError(format string, args ...any) error {
	return &runtime.BuildError{Message: fmt.Sprintf(format, args...)}
}

package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
)

// Environments are kept while there is space. Then the least recently used ones without holders are
// removed. For a tenant above its share, its own are removed first.

const (
	// storeMost is the most environments on a worker, because each is a mount, and every new
	// container copies the mount table.
	storeMost = 1000
	// goneMark is the prefix of directories that are being removed.
	goneMark = "gone-"
)

// makeRoom removes environments until tenant may have another. The error wraps runtime.ErrImage if
// the ones in use leave no room, which is temporary.
func (s *Store) makeRoom(tenant string) error {
	kept, err := s.collect(tenant, "")
	if err != nil {
		return err
	}
	return roomFor(tenant, kept, s.most())
}

func (s *Store) most() int64 { return int64(s.cfg.Most) }

// roomFor checks whether tenant may have another environment besides the kept ones. One tenant gets
// at most half of the space and of the places. The error wraps runtime.ErrImage.
func roomFor(tenant string, kept []storedEnv, most int64) error {
	var all, own int64
	var places int
	for _, k := range kept {
		all += k.bytes
		if k.tenant == tenant {
			own += k.bytes
			places++
		}
	}
	switch {
	case all > most || len(kept) >= storeMost:
		return errNoRoom("")
	case own > most/2 || places >= storeMost/2:
		return errNoRoom(" of this tenant")
	}
	return nil
}

// errNoRoom returns the error when environments in use leave no room for another.
func errNoRoom(whose string) error {
	return fmt.Errorf("%w: this worker keeps no more environments%s while so many are in use: the space for them is used up", runtime.ErrImage, whose)
}

// collect removes environments, least recently used first, until the total and tenant's share are
// within their limits. It returns the remaining ones. It does not remove the environment keep.
func (s *Store) collect(tenant, keep string) (left []storedEnv, err error) {
	left, gone, err := s.forget(tenant, keep)
	for _, k := range gone { // without the lock, because it takes a while
		if rerr := os.RemoveAll(k.dir); rerr != nil && err == nil {
			err = rerr
		}
		if s.cfg.Removed != nil {
			s.cfg.Removed(context.Background(), strings.TrimPrefix(filepath.Base(k.dir), goneMark), k.bytes)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("forget an environment: %w", err)
	}
	return left, nil
}

// forget moves the environments to remove aside, and returns them and the remaining ones.
func (s *Store) forget(tenant, keep string) (left, gone []storedEnv, err error) {
	s.room.Lock()
	defer s.room.Unlock()
	kept, total, err := s.list()
	if err != nil {
		return nil, nil, err
	}
	for i := range kept {
		kept[i].used = s.lastUse(filepath.Base(kept[i].dir), kept[i].used)
	}
	slices.SortFunc(kept, func(a, b storedEnv) int { return a.used.Compare(b.used) })
	left = slices.Clone(kept)
	for _, k := range kept {
		name := filepath.Base(k.dir)
		full := roomFor(k.tenant, left, s.most()) != nil
		if full && k.tenant != tenant { // only the total concerns other tenants
			full = total > s.most() || len(left) >= storeMost
		}
		if !full || !k.whole || name == keep || !s.unmount(name) {
			continue
		}
		aside := filepath.Join(s.cfg.Dir, fmt.Sprintf("%s%s-%d", goneMark, name, time.Now().UnixNano()))
		if err := os.Rename(k.dir, aside); err != nil {
			return left, gone, err
		}
		total -= k.bytes
		left = slices.DeleteFunc(left, func(o storedEnv) bool { return o.dir == k.dir })
		k.dir = aside
		gone = append(gone, k)
	}
	s.full.Store(total > s.most() || len(left) >= storeMost)
	return left, gone, nil
}

// lastUse returns when an environment was last used: the later of its directory's time and its
// mount's last use.
func (s *Store) lastUse(name string, written time.Time) time.Time {
	if used := s.host.LastUse(name); used.After(written) {
		return used
	}
	return written
}

// unmount drops the mount of an environment, if any, and reports whether it was unused. The caller
// holds the lock room.
func (s *Store) unmount(name string) bool {
	unmount, ok := s.host.Detach(name)
	if !ok || unmount == nil {
		return ok
	}
	s.mu.Lock()
	for of, m := range s.ready {
		if m.name == name {
			delete(s.ready, of)
		}
	}
	s.mu.Unlock()
	unmount()
	return true
}

// Rest unmounts the unused environments among names, so that they do not hold their base image.
// They are kept, and mounted again on request.
func (s *Store) Rest(names []string) {
	s.room.Lock()
	defer s.room.Unlock()
	for _, name := range names {
		s.unmount(name)
	}
}

// Tidy retries a removal that failed because everything was in use. It is cheap if there is nothing
// to do.
func (s *Store) Tidy() error {
	if !s.full.Load() {
		return nil
	}
	_, err := s.collect("", "")
	return err
}

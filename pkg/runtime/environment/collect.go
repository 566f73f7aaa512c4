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

// Environments are kept as long as there is space. Then the ones go that were used
// longest ago, and that nobody holds: of a tenant that has more than its share first
// its own.

const (
	// storeMost is how many environments there may be on a worker: each is a mount, and
	// every new container copies the table of those.
	storeMost = 1000
	// goneMark begins the names of directories that are being removed.
	goneMark = "gone-"
)

// makeRoom forgets environments until tenant may have another. The error wraps
// runtime.ErrImage if those that are in use leave no room: it passes.
func (s *Store) makeRoom(tenant string) error {
	kept, err := s.collect(tenant, "")
	if err != nil {
		return err
	}
	return roomFor(tenant, kept, s.most())
}

func (s *Store) most() int64 { return int64(s.cfg.Most) }

// roomFor says whether tenant may have another environment beside those that are
// kept. Half of the space, and of the places, is the most that one tenant gets. The
// error wraps runtime.ErrImage.
func roomFor(tenant string, kept []keptEnv, most int64) error {
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

// errNoRoom says that what is in use leaves no room for another environment.
func errNoRoom(whose string) error {
	return fmt.Errorf("%w: this worker keeps no more environments%s while so many are in use: the space for them is used up", runtime.ErrImage, whose)
}

// collect forgets environments, the one first that was used longest ago, until they
// take no more than they may, and tenant no more than its share. It returns those
// that are left. The one called keep is not forgotten.
func (s *Store) collect(tenant, keep string) (left []keptEnv, err error) {
	left, gone, err := s.forget(tenant, keep)
	for _, k := range gone { // which takes a while, so others may go on
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

// forget puts out of the way what is to be forgotten, and returns it beside the rest.
func (s *Store) forget(tenant, keep string) (left, gone []keptEnv, err error) {
	s.room.Lock()
	defer s.room.Unlock()
	kept, total, err := s.list()
	if err != nil {
		return nil, nil, err
	}
	for i := range kept {
		kept[i].used = s.lastUse(filepath.Base(kept[i].dir), kept[i].used)
	}
	slices.SortFunc(kept, func(a, b keptEnv) int { return a.used.Compare(b.used) })
	left = slices.Clone(kept)
	for _, k := range kept {
		name := filepath.Base(k.dir)
		full := roomFor(k.tenant, left, s.most()) != nil
		if full && k.tenant != tenant { // its share is its own trouble, the whole is everybody's
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
		left = slices.DeleteFunc(left, func(o keptEnv) bool { return o.dir == k.dir })
		k.dir = aside
		gone = append(gone, k)
	}
	s.full.Store(total > s.most() || len(left) >= storeMost)
	return left, gone, nil
}

// lastUse is when an environment was last used, as its directory has it or, if it is
// mounted, as is known better.
func (s *Store) lastUse(name string, written time.Time) time.Time {
	if used := s.host.LastUse(name); used.After(written) {
		return used
	}
	return written
}

// unmount forgets the mount of an environment, if it has one, and reports whether
// that was not in use. The caller holds the lock of rooms.
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

// Rest unmounts those of the environments of these names that nobody uses, so that they do
// not hold the image that they are mounted over. They are kept, and mounted again when they
// are asked for.
func (s *Store) Rest(names []string) {
	s.room.Lock()
	defer s.room.Unlock()
	for _, name := range names {
		s.unmount(name)
	}
}

// Tidy removes what could not be removed when the space became full, since all of it was in
// use then. It is cheap unless there is something to do.
func (s *Store) Tidy() error {
	if !s.full.Load() {
		return nil
	}
	_, err := s.collect("", "")
	return err
}

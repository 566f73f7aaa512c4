package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
)

// Environments are kept as long as there is space. Then the ones go that were used
// longest ago, and that nobody holds: of a tenant that has more than its share first
// its own.

// goneMark begins the names of directories that are being removed.
const goneMark = "gone-"

// makeRoom forgets environments until tenant may have another. The error wraps
// runtime.ErrImage if those that are in use leave no room: it passes.
func (e *environments) makeRoom(tenant string) error {
	kept, err := e.collect(tenant, "")
	if err != nil {
		return err
	}
	return roomFor(tenant, kept, e.most())
}

func (e *environments) most() int64 { return int64(e.rt.cfg.EnvironmentsMost) }

// collect forgets environments, the one first that was used longest ago, until they
// take no more than they may, and tenant no more than its share. It returns those
// that are left. The one called keep is not forgotten.
func (e *environments) collect(tenant, keep string) (left []keptEnv, err error) {
	left, gone, err := e.forget(tenant, keep)
	for _, k := range gone { // which takes a while, so others may go on
		if rerr := os.RemoveAll(k.dir); rerr != nil && err == nil {
			err = rerr
		}
		e.removed.Note(context.Background(), "environment", strings.TrimPrefix(filepath.Base(k.dir), goneMark), k.bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("forget an environment: %w", err)
	}
	return left, nil
}

// forget puts out of the way what is to be forgotten, and returns it beside the rest.
func (e *environments) forget(tenant, keep string) (left, gone []keptEnv, err error) {
	e.room.Lock()
	defer e.room.Unlock()
	kept, total, err := e.list()
	if err != nil {
		return nil, nil, err
	}
	for i := range kept {
		kept[i].used = e.lastUse(filepath.Base(kept[i].dir), kept[i].used)
	}
	slices.SortFunc(kept, func(a, b keptEnv) int { return a.used.Compare(b.used) })
	left = slices.Clone(kept)
	for _, k := range kept {
		name := filepath.Base(k.dir)
		full := roomFor(k.tenant, left, e.most()) != nil
		if full && k.tenant != tenant { // its share is its own trouble, the whole is everybody's
			full = total > e.most() || len(left) >= environmentsMost
		}
		if !full || !k.whole || name == keep || !e.unmount(name) {
			continue
		}
		aside := filepath.Join(e.dir, fmt.Sprintf("%s%s-%d", goneMark, name, time.Now().UnixNano()))
		if err := os.Rename(k.dir, aside); err != nil {
			return left, gone, err
		}
		total -= k.bytes
		left = slices.DeleteFunc(left, func(o keptEnv) bool { return o.dir == k.dir })
		k.dir = aside
		gone = append(gone, k)
	}
	e.full.Store(total > e.most() || len(left) >= environmentsMost)
	return left, gone, nil
}

// lastUse is when an environment was last used, as its directory has it or, if it is
// mounted, as is known better.
func (e *environments) lastUse(name string, written time.Time) time.Time {
	if used := e.rt.images.LastUse(mountName(name)); used.After(written) {
		return used
	}
	return written
}

func mountName(name string) string { return "env-" + name }

// unmount forgets the mount of an environment, if it has one, and reports whether
// that was not in use. It holds the lock of rooms.
func (e *environments) unmount(name string) bool {
	unmount, free := e.rt.images.Detach(mountName(name))
	if unmount == nil {
		return free
	}
	e.mu.Lock()
	for of, img := range e.ready {
		if img.RootName() == mountName(name) {
			delete(e.ready, of)
		}
	}
	e.mu.Unlock()
	unmount()
	return true
}

// rest unmounts the environments that are stacked on an image's root file system and
// that nobody uses, so that they do not hold it. They are kept, and mounted again
// when they are asked for.
func (e *environments) rest(chain string) {
	e.room.Lock()
	defer e.room.Unlock()
	for _, name := range e.rt.images.StackedOn(chain) {
		e.unmount(strings.TrimPrefix(name, mountName("")))
	}
}

// note writes down now and then that an environment is used, for the next run of the
// worker.
func (e *environments) note(img *image.Image) {
	if e.rt.images.NoteDue(img, time.Minute) {
		name := strings.TrimPrefix(img.RootName(), mountName(""))
		if l, err := readLock(filepath.Join(e.dir, name)); err == nil { // else it is gone, and will not be missed
			e.offer(img, name, &l)
		}
	}
}

// errNoRoom says that what is in use leaves no room for another environment.
func errNoRoom(whose string) error {
	return fmt.Errorf("%w: this worker keeps no more environments%s while so many are in use: the space for them is used up", runtime.ErrImage, whose)
}

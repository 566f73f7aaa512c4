package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// seenMost bounds what is remembered of an image: whoever names directories by the hundred
// has them looked at again.
const seenMost = 100

// Seen remembers what one image has where programs write, as it does not change. The zero
// value remembers nothing yet.
type Seen struct {
	mu     sync.Mutex
	others map[string]*others // by directory, of what was written over
	empty  map[string]bool    // directories of which it has nothing, of those that were asked for
}

// overs returns the paths of l that begin with what the image has there. /tmp never does,
// nor what is reached through a link.
func (s *Seen) overs(rootfs string, l sandbox.Layout) (out []over, err error) {
	paths := s.perhaps(l.Write)
	if len(paths) == 0 {
		return nil, nil // nearly always
	}
	root, err := os.Open(rootfs)
	if err != nil {
		return nil, fmt.Errorf("look at the image: %w", err)
	}
	defer root.Close()
	for _, p := range paths {
		o := over{path: p}
		some, err := o.look(root)
		if err != nil {
			return nil, fmt.Errorf("look at %s of the image: %w", p, err)
		}
		if some {
			if o.others, err = s.othersOf(rootfs, &o); err != nil {
				return nil, err
			}
			if err := o.others.check(p); err != nil {
				return nil, err
			}
			out = append(out, o)
		} else {
			s.emptyThere(p)
		}
	}
	return out, nil
}

// perhaps returns those of the paths of which the image may have something, as far as is known.
func (s *Seen) perhaps(paths []string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range paths {
		if p != "/tmp" && !s.empty[p] {
			out = append(out, p)
		}
	}
	return out
}

// emptyThere notes that the image has nothing at a path.
func (s *Seen) emptyThere(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty == nil || len(s.empty) > seenMost {
		s.empty = map[string]bool{}
	}
	s.empty[path] = true
}

// othersOf lists what does not belong to the owner of a directory, once for each.
func (s *Seen) othersOf(rootfs string, o *over) (*others, error) {
	s.mu.Lock()
	found := s.others[o.path]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := listOthers(filepath.Join(rootfs, o.path), o.uid, o.gid)
	if err != nil {
		return nil, fmt.Errorf("look for other owners in %s: %w", o.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others == nil || len(s.others) > seenMost {
		s.others = map[string]*others{}
	}
	s.others[o.path] = found
	return found, nil
}

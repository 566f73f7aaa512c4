package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// maxCachedDirs limits the cache of an image. Directories beyond it are examined again each time.
const maxCachedDirs = 100

// DirCache caches the state of an image's directories that programs write to, because images never
// change. The zero value is empty.
type DirCache struct {
	mu     sync.Mutex
	others map[string]*others // by directory, for writable directories
	empty  map[string]bool    // requested directories without content
}

// overs returns the paths of l that start with the image's content. It excludes /tmp and paths
// through links.
func (s *DirCache) overs(rootfs string, l sandbox.Layout) (out []over, err error) {
	paths := s.perhaps(l.Write)
	if len(paths) == 0 {
		return nil, nil // the usual case
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
			s.addEmpty(p)
		}
	}
	return out, nil
}

// perhaps returns the paths that may have content, as far as is known.
func (s *DirCache) perhaps(paths []string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range paths {
		if p != "/tmp" && !s.empty[p] {
			out = append(out, p)
		}
	}
	return out
}

// addEmpty records that the image has no content at a path.
func (s *DirCache) addEmpty(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty == nil || len(s.empty) > maxCachedDirs {
		s.empty = map[string]bool{}
	}
	s.empty[path] = true
}

// othersOf lists the files with other owners below a directory, once for each.
func (s *DirCache) othersOf(rootfs string, o *over) (*others, error) {
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
	if s.others == nil || len(s.others) > maxCachedDirs {
		s.others = map[string]*others{}
	}
	s.others[o.path] = found
	return found, nil
}

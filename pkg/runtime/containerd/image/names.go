package image

import (
	"context"
	"maps"
	"sync"
	"time"
)

// maxNamed limits the names of images in a heartbeat, because jobs choose the names. Dropped names
// in use return with the next job.
const maxNamed = 64

// names caches the digests of image names.
type names struct {
	mu      sync.Mutex
	digests map[string]string // by the name in jobs
	asked   time.Time         // when containerd was last queried
	asking  bool
}

// Note records the current digest of a job's image name for Digests.
func (m *Store) Note(name, digest string) {
	n := &m.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.digests[name] == digest {
		return
	}
	if n.digests == nil || len(n.digests) >= maxNamed {
		n.digests = map[string]string{}
	}
	n.digests[name] = digest
}

// Digests returns the digests of the names recorded by Note. It refreshes them in the background,
// because a heartbeat must not wait for containerd.
func (m *Store) Digests() map[string]string {
	n := &m.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asking && len(n.digests) > 0 && time.Since(n.asked) > imageTTL {
		n.asking = m.spawn(m.askNames)
	}
	return maps.Clone(n.digests)
}

// askNames refreshes the digest of each name from containerd, and drops names without one.
func (m *Store) askNames(ctx context.Context) {
	n := &m.names
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n.mu.Lock()
	before := maps.Clone(n.digests)
	n.mu.Unlock()
	now := map[string]string{}
	for name := range before {
		if ref, err := imageName(name); err == nil {
			if img, err := m.client.GetImage(ctx, ref); err == nil {
				now[name] = img.Target().Digest.String()
			}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asking, n.asked = false, time.Now()
	for name, digest := range before {
		if n.digests[name] != digest {
			continue // recorded meanwhile, and more recent
		}
		if now[name] == "" {
			delete(n.digests, name)
		} else {
			n.digests[name] = now[name]
		}
	}
}

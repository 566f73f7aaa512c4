package image

import (
	"context"
	"maps"
	"sync"
	"time"
)

// maxNamed bounds what a heartbeat says about images. Names are the jobs' to
// choose; when there are more, those in use come back by themselves.
const maxNamed = 64

// names remembers what the names of images mean.
type names struct {
	mu      sync.Mutex
	digests map[string]string // as jobs name them
	asked   time.Time         // when containerd was asked last
	asking  bool
}

// Note says what a name means just now, as jobs name it: Digests tells it from then on.
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

// Digests returns what the names mean that Note was told of. They are looked up again beside
// whoever asks: a heartbeat must not wait for containerd.
func (m *Store) Digests() map[string]string {
	n := &m.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asking && len(n.digests) > 0 && time.Since(n.asked) > imageTTL {
		n.asking = m.spawn(m.askNames)
	}
	return maps.Clone(n.digests)
}

// askNames asks containerd what each name means now. One that it cannot tell is
// forgotten.
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
			continue // noted meanwhile, by one who knows
		}
		if now[name] == "" {
			delete(n.digests, name)
		} else {
			n.digests[name] = now[name]
		}
	}
}

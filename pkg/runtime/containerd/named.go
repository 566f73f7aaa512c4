package containerd

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
)

var _ runtime.Imager = (*Runtime)(nil)

// maxNamed bounds what a heartbeat says about images. Names are the jobs' to
// choose; when there are more, those in use come back by themselves.
const maxNamed = 64

// named remembers what the names of images mean.
type named struct {
	mu      sync.Mutex
	digests map[string]string // as jobs name them
	asked   time.Time         // when containerd was asked last
	asking  bool
}

// note says what a name means just now.
func (n *named) note(name, digest string) {
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

// ImageDigests implements runtime.Imager. The names are looked up again beside
// whoever asks: a heartbeat must not wait for containerd.
func (r *Runtime) ImageDigests() map[string]string {
	n := &r.named
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asking && len(n.digests) > 0 && time.Since(n.asked) > imageTTL {
		n.asking = r.spawn(r.askNames)
	}
	return maps.Clone(n.digests)
}

// askNames asks containerd what each name means now. One that it cannot tell is
// forgotten.
func (r *Runtime) askNames() {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	r.named.mu.Lock()
	before := maps.Clone(r.named.digests)
	r.named.mu.Unlock()
	now := map[string]string{}
	for name := range before {
		if ref, err := imageName(name); err == nil {
			if img, err := r.client.GetImage(ctx, ref); err == nil {
				now[name] = img.Target().Digest.String()
			}
		}
	}
	r.named.mu.Lock()
	defer r.named.mu.Unlock()
	r.named.asking, r.named.asked = false, time.Now()
	for name, digest := range before {
		if r.named.digests[name] != digest {
			continue // noted meanwhile, by one who knows
		}
		if now[name] == "" {
			delete(r.named.digests, name)
		} else {
			r.named.digests[name] = now[name]
		}
	}
}

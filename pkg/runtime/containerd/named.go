package containerd

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

var _ runtime.ImageLister = (*Runtime)(nil)

// maxNamed bounds what a heartbeat says about images. Names are the jobs' to
// choose; when there are more, those in use come back by themselves.
const maxNamed = 64

// named remembers what the names of images mean.
type named struct {
	mu      sync.Mutex
	digests map[string]string // as jobs name them
	asked   time.Time         // when containerd was asked last
	asking  bool

	images  []policy.HostImage // all that there are, the operator's first
	looked  time.Time          // when they were looked through last
	looking bool
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

// ImageDigests implements runtime.ImageLister. The names are looked up again beside
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

// Images implements runtime.ImageLister. They are looked through again beside whoever asks,
// as names are.
func (r *Runtime) Images() (some []policy.HostImage, more int) {
	n := &r.named
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.looking && time.Since(n.looked) > imageTTL {
		n.looking = r.spawn(r.lookThrough)
	}
	return policy.SomeImages(n.images) // which nobody writes to
}

// lookThrough looks which images there are. Root file systems of those that somebody
// removed are let go of, as soon as nobody uses them. If it fails, what was known stands.
func (r *Runtime) lookThrough() {
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	found, err := r.images.look(ctx)
	if err != nil && r.ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot look which images there are", "error", err)
	}
	r.named.mu.Lock()
	defer r.named.mu.Unlock()
	r.named.looking, r.named.looked = false, time.Now()
	if err == nil {
		r.named.images = found
	}
}

// look returns what the fleet is told of images, and removes the root file systems that
// none of them has.
func (m *images) look(ctx context.Context) ([]policy.HostImage, error) {
	m.collecting.Lock()
	defer m.collecting.Unlock()
	began := time.Now()
	all, err := m.survey(ctx)
	if err != nil {
		return nil, err
	}
	chains := map[string]int{}
	for _, k := range all {
		chains[k.chain]++
	}
	return told(all), m.removeOrphans(ctx, chains, began)
}

// told is what is said of images, the operator's first.
func told(all []keptImage) []policy.HostImage {
	out := make([]policy.HostImage, len(all))
	for i := range all {
		out[i] = all[i].host()
	}
	slices.SortFunc(out, func(a, b policy.HostImage) int {
		if a.Pulled != b.Pulled {
			return map[bool]int{false: -1, true: 1}[a.Pulled]
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

package image

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/policy"
)

// list remembers which images there are.
type list struct {
	mu      sync.Mutex
	images  []policy.HostImage // all that there are, the operator's first
	looked  time.Time          // when they were looked through last
	looking bool
}

// List returns which images there are, the operator's first, and how many more than are
// told. They are looked through again beside whoever asks, as names are.
func (m *Store) List() (some []policy.HostImage, more int) {
	l := &m.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.looking && time.Since(l.looked) > imageTTL {
		l.looking = m.spawn(m.lookThrough)
	}
	return policy.SomeImages(l.images) // which nobody writes to
}

// lookThrough looks which images there are. Root file systems of those that somebody
// removed are let go of, as soon as nobody uses them. If it fails, what was known stands.
func (m *Store) lookThrough(whole context.Context) {
	ctx, cancel := context.WithTimeout(whole, 30*time.Second)
	defer cancel()
	found, err := m.Look(ctx)
	if err != nil && whole.Err() == nil {
		slog.WarnContext(ctx, "cannot look which images there are", "error", err)
	}
	m.list.mu.Lock()
	defer m.list.mu.Unlock()
	m.list.looking, m.list.looked = false, time.Now()
	if err == nil {
		m.list.images = found
	}
}

// Look returns what the fleet is told of images, and removes the root file systems that
// none of them has.
func (m *Store) Look(ctx context.Context) ([]policy.HostImage, error) {
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
	left := policy.MaxHostLanguages
	for i := range out {
		if out[i].Languages == nil {
			continue
		}
		if left--; left < 0 {
			out[i].Languages = nil
		}
	}
	return out
}

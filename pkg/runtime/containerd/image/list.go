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

// list caches the existing images.
type list struct {
	mu      sync.Mutex
	images  []policy.HostImage // all images, the operator's first
	looked  time.Time          // time of the last survey
	looking bool
}

// List returns the existing images, the operator's first, limited to the number reported to the
// fleet, and the number of others. It refreshes the list in the background, like names.
func (m *Store) List() (some []policy.HostImage, more int) {
	l := &m.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.looking && time.Since(l.looked) > imageTTL {
		l.looking = m.spawn(m.lookThrough)
	}
	return policy.SomeImages(l.images) // it is read-only
}

// lookThrough refreshes the list. It removes root file systems of removed images when they are
// unused. After a failure the previous list stays.
func (m *Store) lookThrough(whole context.Context) {
	ctx, cancel := context.WithTimeout(whole, 30*time.Second)
	defer cancel()
	found, err := m.Look(ctx)
	if err != nil && whole.Err() == nil {
		slog.WarnContext(ctx, "images not listed", "error", err)
	}
	m.list.mu.Lock()
	defer m.list.mu.Unlock()
	m.list.looking, m.list.looked = false, time.Now()
	if err == nil {
		m.list.images = found
	}
}

// Look returns the images as reported to the fleet, and removes root file systems without an image.
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
	return hostImages(all), m.removeOrphans(ctx, chains, began)
}

// hostImages returns the images as reported to the fleet, the operator's first.
func hostImages(all []storedImage) []policy.HostImage {
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

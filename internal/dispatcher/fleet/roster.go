package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// freshFor is how old the roster may be in addition to the time between two refreshes. A roster that shows a lack
// must be younger than freshFor.
const freshFor = time.Second

// Worker is a connected worker as admission sees it.
type Worker struct {
	ID, Pool string
	Host     policy.Host // capabilities of its host
	Offer    placement.Offer
	Cordon   *store.Cordon // by an operator, or by the pause of its pool; nil: none

	host json.RawMessage // encoding of Host
}

// Takes reports whether the worker can run jobs with a need.
func (w *Worker) Takes(n placement.Need) bool { return w.Offer.Takes(w.Pool, n) }

// roster is the connected workers at the last read of the store. It is immutable.
type roster struct {
	at      time.Time
	workers []Worker          // workers with a readable host and an isolation, by id
	images  map[string]string // digest by name, "" where workers disagree
}

// enroll replaces the roster with the workers read from the store. It decodes a host only if it has changed.
func (f *Fleet) enroll(ws []store.Worker, known map[string]member) {
	before := map[string]*Worker{}
	if old := f.roster.Load(); old != nil {
		for i := range old.workers {
			before[old.workers[i].ID] = &old.workers[i]
		}
	}
	r := &roster{at: time.Now(), workers: make([]Worker, 0, len(ws)), images: map[string]string{}}
	for _, w := range ws {
		m := known[w.ID]
		n := Worker{ID: w.ID, Pool: w.Pool, Offer: m.offer, Cordon: w.Cordon, host: w.Host}
		if old := before[w.ID]; old != nil && bytes.Equal(old.host, w.Host) {
			n.Host = old.Host
		} else if json.Unmarshal(w.Host, &n.Host) != nil {
			continue // of another version
		}
		r.agree(n.Host.ImageDigests)
		if len(n.Host.Isolations) > 0 {
			r.workers = append(r.workers, n)
		}
	}
	slices.SortFunc(r.workers, func(a, b Worker) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	f.roster.Store(r)
}

// agree adds a worker's image digests. A name with different digests, as while an image is replaced, gets "".
func (r *roster) agree(digests map[string]string) {
	for name, digest := range digests {
		if known, ok := r.images[name]; ok && known != digest {
			digest = ""
		}
		r.images[name] = digest
	}
}

// now returns the roster, read again if it is older than a few seconds. If the store does not answer, the roster may
// be older, or nil.
func (f *Fleet) now() *roster {
	r := f.roster.Load()
	if r != nil && time.Since(r.at) < f.every+freshFor {
		return r
	}
	_, _, _ = f.asked.Get(context.Background()) // has its own timeout
	return f.roster.Load()
}

// List returns the connected workers, sorted by id; nil if they are unknown. The caller must not change the list.
func (f *Fleet) List() []Worker {
	if r := f.now(); r != nil {
		return r.workers
	}
	return nil
}

// fresh is List with a roster younger than freshFor. A request must not be rejected for lack of a worker that has
// just connected.
func (f *Fleet) fresh() []Worker {
	if r := f.roster.Load(); r == nil || time.Since(r.at) >= freshFor {
		_, _, _ = f.asked.Get(context.Background()) // has its own timeout
	}
	return f.List()
}

// Images returns the digests of images by name; "" where workers disagree. It reads a roster that is older than
// freshFor again. It returns job.ErrUnavailable if the workers are unknown.
func (f *Fleet) Images() (map[string]string, error) {
	f.fresh()
	r := f.roster.Load()
	if r == nil || time.Since(r.at) > Connected {
		return nil, fmt.Errorf("%w: the fleet's state is unknown", job.ErrUnavailable)
	}
	return r.images, nil
}

// Hosts returns the hosts of the connected workers for a class; none if they are unknown, since admission does not
// depend on it.
func (f *Fleet) Hosts(class string) []policy.Host {
	var out []policy.Host
	need := placement.ParseClass(class)
	for _, w := range f.List() {
		if w.Takes(need) {
			out = append(out, w.Host)
		}
	}
	return out
}

// Reserved reports whether a worker is reserved for images that include this one.
func (f *Fleet) Reserved(image string) bool {
	return slices.ContainsFunc(f.List(), func(w Worker) bool { return slices.Contains(w.Offer.Images, image) })
}

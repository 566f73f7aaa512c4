package image

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	client "github.com/containerd/containerd/v2/client"
	imagespkg "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"

	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Images that were pulled for jobs are kept while there is space. Then the least recently used
// images without holders are removed. The operator's images stay: imported and trusted ones.

const (
	// pulledLabel marks an image that this or another worker pulled for a job.
	pulledLabel = "assay.dev/pulled"
	// imagesMost is the most pulled images of a worker, because each is a mount.
	imagesMost = 500
	// pullsAtOnce limits how far the images' space may exceed its limit.
	pullsAtOnce = 4
)

// imageFacts are the constant properties of an unpacked image, read once.
type imageFacts struct {
	chain    string
	bytes    int64 // packed plus unpacked, without shared layers
	unpacked bool
	says     map[string]string // its languages
	unsure   error             // why bytes is unknown
}

// storedImage is an image in this containerd.
type storedImage struct {
	imageFacts
	record imagespkg.Image
	pulled bool // for a job, and not trusted by the operator
}

// host returns the image as reported to the fleet.
func (k *storedImage) host() policy.HostImage {
	out := policy.HostImage{Name: k.record.Name, Digest: k.record.Target.Digest.String(), Bytes: k.bytes, Pulled: k.pulled}
	if !k.pulled { // pulled images are private to their users
		out.Languages = k.says
	}
	if k.unsure != nil {
		out.Bytes = 0
	}
	return out
}

// pulledImage is an image that may be collected.
type pulledImage struct {
	imageFacts
	name string
	used time.Time
}

// makeRoom collects images until another one may be pulled. The error wraps runtime.ErrImage if the
// images in use leave no room.
func (m *Store) makeRoom(ctx context.Context) error {
	full, err := m.collect(ctx, "")
	if err != nil {
		return fmt.Errorf("make room for an image: %w", err)
	}
	if full {
		return fmt.Errorf("%w: this worker has no room for another while so many are in use", runtime.ErrImage)
	}
	return nil
}

// Collect removes pulled images until they are within their limit. It returns true if they are not
// because the others are in use.
func (m *Store) Collect(ctx context.Context) (full bool, err error) { return m.collect(ctx, "") }

// Tidy is Collect if the last attempt failed because images were in use.
func (m *Store) Tidy(ctx context.Context) error {
	if !m.full.Load() {
		return nil
	}
	_, err := m.Collect(ctx)
	return err
}

// collect removes pulled images, least recently used first, until they are within their limit. It
// reports whether they still exceed it. It does not remove the image keep.
func (m *Store) collect(ctx context.Context, keep string) (full bool, err error) {
	m.collecting.Lock()
	defer m.collecting.Unlock()
	began := time.Now()
	pulled, chains, err := m.pulled(ctx)
	if err != nil {
		return false, err
	}
	if err := m.removeOrphans(ctx, chains, began); err != nil {
		return false, err
	}
	total, count := int64(0), len(pulled)
	for _, p := range pulled {
		total += p.bytes
	}
	for _, p := range pulled {
		if total <= m.space && count <= imagesMost {
			break
		}
		if p.name == keep {
			continue
		}
		gone, err := m.remove(ctx, p, chains[p.chain] == 1)
		if err != nil {
			return false, fmt.Errorf("collect image %s: %w", p.name, err)
		}
		if gone {
			total, count = total-p.bytes, count-1
			chains[p.chain]--
			m.removed.Note(ctx, "image", p.name, p.bytes)
		}
	}
	full = total > m.space || count > imagesMost
	m.full.Store(full)
	return full, nil
}

// pulled returns the images that may be collected, least recently used first, and the number of
// images of each chain of layers.
func (m *Store) pulled(ctx context.Context) (pulled []pulledImage, chains map[string]int, err error) {
	all, err := m.survey(ctx)
	if err != nil {
		return nil, nil, err
	}
	chains = map[string]int{}
	for _, k := range all {
		if k.pulled && k.unsure != nil {
			slog.WarnContext(ctx, "image size unknown", "image", k.record.Name, "error", k.unsure)
		}
		if k.chain == "" {
			continue // it has no layers here, so it shares none
		}
		chains[k.chain]++
		if k.pulled {
			used := m.LastUse(k.chain) // by this run of the worker, otherwise its creation
			if used.IsZero() {
				used = k.record.UpdatedAt
			}
			pulled = append(pulled, pulledImage{k.imageFacts, k.record.Name, used})
		}
	}
	slices.SortFunc(pulled, func(a, b pulledImage) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name)) })
	return pulled, chains, nil
}

// survey returns all images. The caller holds collecting.
func (m *Store) survey(ctx context.Context) ([]storedImage, error) {
	all, err := m.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	out := make([]storedImage, len(all))
	known := map[string]imageFacts{}
	for i, record := range all {
		key := record.Name + "@" + record.Target.Digest.String()
		facts, ok := m.facts[key]
		if !ok || !facts.unpacked && m.isUnpacked(ctx, facts.chain) {
			facts = m.examine(ctx, record)
		}
		if facts.chain != "" {
			known[key] = facts
		}
		out[i] = storedImage{facts, record, record.Labels[pulledLabel] != "" && !m.operators(record.Name, record.Labels)}
	}
	m.facts = known
	return out, nil
}

func (m *Store) isUnpacked(ctx context.Context, chain string) bool {
	_, err := m.client.SnapshotService(Snapshotter).Stat(ctx, chain)
	return err == nil
}

func (m *Store) examine(ctx context.Context, record imagespkg.Image) (f imageFacts) {
	img := client.NewImage(m.client, record)
	layers, err := img.RootFS(ctx)
	if err != nil {
		f.unsure = err
		return f
	}
	f.chain = identity.ChainID(layers).String()
	if spec, err := img.Spec(ctx); err == nil { // otherwise the next program in it gets the error
		f.says = language.Versions(spec.Config.Labels[language.Label])
	}
	f.unpacked = m.isUnpacked(ctx, f.chain)
	if f.bytes, f.unsure = img.Usage(ctx, client.WithSnapshotUsage()); f.unsure != nil {
		f.bytes = m.most
	}
	return f
}

// remove removes an image, with its root file system if it is the last image with it. It reports
// whether the image is gone. It does not remove an image in use, here or by another worker of this
// containerd.
func (m *Store) remove(ctx context.Context, p pulledImage, last bool) (gone bool, err error) {
	if last {
		m.rest(p.chain)
	}
	m.mounting.Lock()
	defer m.mounting.Unlock()
	if last {
		unmount, free := m.Detach(p.chain)
		if !free {
			return false, nil
		}
		if unmount != nil {
			unmount()
		}
		if ok, err := m.removeBase(ctx, p.chain); err != nil || !ok {
			return false, err
		}
	}
	m.Forget(p.name)
	err = m.client.ImageService().Delete(ctx, p.name, imagespkg.SynchronousDelete())
	if err != nil && !errdefs.IsNotFound(err) {
		return false, err
	}
	return true, nil
}

// removeOrphans removes the root file systems without an image at a time, and without later uses or
// holders. They come from moved tags and from manually removed images.
func (m *Store) removeOrphans(ctx context.Context, chains map[string]int, at time.Time) error {
	m.mu.Lock()
	var orphans []string
	for chain, r := range m.roots {
		if chains[chain] == 0 && r.below == nil && r.used.Before(at) {
			orphans = append(orphans, chain)
		}
	}
	m.mu.Unlock()
	removed := false
	for _, chain := range orphans {
		m.rest(chain)
		m.mounting.Lock()
		unmount, free := m.Detach(chain)
		var err error
		if free {
			if unmount != nil {
				unmount()
			}
			_, err = m.removeBase(ctx, chain)
			removed = true
		}
		m.mounting.Unlock()
		if err != nil {
			return err
		}
	}
	if removed {
		return m.reclaim(ctx)
	}
	return nil
}

// reclaim makes containerd free unreferenced content at once.
func (m *Store) reclaim(ctx context.Context) error {
	s := m.client.LeasesService()
	l, err := s.Create(ctx, leases.WithRandomID())
	if err == nil {
		err = s.Delete(ctx, l, leases.SynchronousDelete)
	}
	if err != nil {
		return fmt.Errorf("free the space of images: %w", err)
	}
	return nil
}

// removeBase removes the snapshots that mountRoot made of a chain, including earlier releases'. It
// returns false if another worker has a view of them.
func (m *Store) removeBase(ctx context.Context, chain string) (bool, error) {
	sn := m.client.SnapshotService(Snapshotter)
	for _, name := range []string{m.view(chain), m.formerView(chain), baseName(chain), formerBaseName(chain)} {
		err := sn.Remove(ctx, name)
		if errdefs.IsFailedPrecondition(err) {
			return false, nil
		}
		if err != nil && !errdefs.IsNotFound(err) {
			return false, fmt.Errorf("remove the root file system: %w", err)
		}
	}
	return true, nil
}

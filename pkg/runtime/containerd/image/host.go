package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	client "github.com/containerd/containerd/v2/client"
	imagespkg "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"

	"github.com/assay-run/assay/pkg/policy"
)

// connectTime is how long containerd may take to respond.
const connectTime = 10 * time.Second

// Host manages the images of a containerd by hand, with or without running workers.
type Host struct{ store *Store }

// OpenHost connects to the containerd at address. trusted are images of registries that count as
// the operator's: see Config.Trusted.
func OpenHost(ctx context.Context, address, namespace string, trusted []string) (*Host, error) {
	if err := checkTrusted(trusted); err != nil {
		return nil, fmt.Errorf("--image-registries: %w", err)
	}
	if strings.HasPrefix(address, "/") {
		if _, err := os.Stat(address); err != nil { // no wait, unlike a worker that starts with containerd
			return nil, fmt.Errorf("connect to containerd at %s (--containerd): %w", address, err)
		}
	}
	c, err := client.New(address, client.WithDefaultNamespace(namespace), client.WithTimeout(connectTime))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if _, err := c.Version(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to containerd at %s: %w", address, err), c.Close())
	}
	return &Host{&Store{client: c, trusted: trusted, most: int64(DefaultMost)}}, nil
}

// Close ends the connection.
func (s *Host) Close() error { return s.store.client.Close() }

// List returns all images, the operator's first.
func (s *Host) List(ctx context.Context) ([]policy.HostImage, error) {
	all, err := s.survey(ctx)
	return hostImages(all), err
}

func (s *Host) survey(ctx context.Context) ([]storedImage, error) {
	s.store.collecting.Lock()
	defer s.store.collecting.Unlock()
	return s.store.survey(ctx)
}

// Check checks whether a file may be an archive of images, without importing it.
func (s *Host) Check(file string) error {
	if err := checkArchive(file); err != nil {
		return fmt.Errorf("import %s: %w", file, err)
	}
	return nil
}

// Import imports the images of an archive and returns them. After an error there are none.
func (s *Host) Import(ctx context.Context, file string) ([]policy.HostImage, error) {
	made, err := importFile(ctx, s.store.client, file)
	if err != nil {
		return nil, err
	}
	all := make([]storedImage, len(made))
	for i, record := range made {
		all[i] = storedImage{imageFacts: s.store.examine(ctx, record), record: record}
	}
	return hostImages(all), nil
}

// Pruned is an image that Prune removed, or would remove.
type Pruned struct {
	policy.HostImage
	InUse bool `json:"in_use"` // a worker has it mounted: its files are removed after the unmount
}

// Prune removes the images that jobs pulled longer ago than older, and calls did for each. With
// dry, it removes none. Running programs continue, and a worker pulls the image again for the next
// job.
func (s *Host) Prune(ctx context.Context, older time.Duration, dry bool, did func(Pruned)) error {
	all, err := s.survey(ctx)
	if err != nil {
		return err
	}
	chains := map[string]int{}
	for _, k := range all {
		chains[k.chain]++
	}
	before := time.Now().Add(-older)
	for _, k := range all {
		if !k.pulled || older > 0 && k.record.UpdatedAt.After(before) {
			continue
		}
		chains[k.chain]--
		p := Pruned{HostImage: k.host()}
		if p.InUse, err = s.store.isViewed(ctx, k.chain); err == nil && !dry {
			p.InUse, err = s.prune(ctx, &k, chains[k.chain] == 0)
		}
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return fmt.Errorf("prune %s: %w", k.record.Name, err)
		}
		did(p)
	}
	if dry {
		return nil
	}
	return s.store.reclaim(ctx)
}

// errMoved means that a name has changed its image meanwhile.
var errMoved = errors.New("it has just been pulled anew, or removed")

// prune removes an image. With the last image of a chain of layers it also removes the workers'
// root file system of them, unless a worker has it mounted.
func (s *Host) prune(ctx context.Context, k *storedImage, last bool) (inUse bool, err error) {
	m := s.store
	target := k.record.Target
	err = m.client.ImageService().Delete(ctx, k.record.Name, imagespkg.DeleteTarget(&target))
	if errdefs.IsNotFound(err) {
		return false, errMoved
	}
	if err != nil || k.chain == "" {
		return false, err
	}
	if !last {
		return m.isViewed(ctx, k.chain)
	}
	free, err := m.removeBase(ctx, k.chain)
	return !free, err
}

// isViewed reports whether a worker has mounted the root file system of a chain of layers.
func (m *Store) isViewed(ctx context.Context, chain string) (viewed bool, err error) {
	err = m.client.SnapshotService(Snapshotter).Walk(ctx, func(context.Context, snapshots.Info) error {
		viewed = true
		return nil
	}, fmt.Sprintf("parent==%q", baseName(chain)), fmt.Sprintf("parent==%q", formerBaseName(chain)))
	if err != nil {
		return false, fmt.Errorf("find its users: %w", err)
	}
	return viewed, nil
}

package image

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/distribution/reference"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/registry"
)

// pullFresh is how long the registry's answer for a tag is valid, for names in Config.Always.
const pullFresh = time.Minute

// stale reports whether to query the registry of ref although img exists. Digests never change, and
// operators replace imported images.
func (m *Store) stale(ref string, img client.Image) bool {
	if !among(m.always, ref) || img.Labels()[pulledLabel] == "" {
		return false
	}
	if named, err := reference.ParseNamed(ref); err != nil {
		return false
	} else if _, exact := named.(reference.Digested); exact {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.asked[ref]) >= pullFresh
}

// answered records a response of the registry of ref.
func (m *Store) answered(ref string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, at := range m.asked {
		if time.Since(at) >= pullFresh {
			delete(m.asked, name)
		}
	}
	m.asked[ref] = time.Now()
}

// pull pulls ref from its registry when it is its turn.
func (m *Store) pull(ctx context.Context, ref string) (client.Image, error) {
	if strings.HasPrefix(ref, localDomain+"/") {
		return nil, job.Invalid("image", "there is no image %s on this worker; import it (assay image import), or name an image of a registry, such as docker.io/library/%s", ref, strings.TrimPrefix(ref, localDomain+"/"))
	}
	if !m.registries.Lists(ref) {
		host, _, _ := strings.Cut(ref, "/")
		return nil, job.Invalid("image", "there is no image %s on this worker, and its operator does not allow pulls from registry %s (--image-registries); import it (assay image import)", ref, host)
	}
	select {
	case m.pulls <- struct{}{}:
		defer func() { <-m.pulls }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: others are pulled", runtime.ErrImage)
	}
	if err := m.makeRoom(ctx); err != nil {
		return nil, err
	}
	ctx, counted := m.pulling.Begin(ctx, ref)
	img, bytes, err := m.fetch(ctx, ref)
	counted(bytes, err)
	if err != nil {
		return nil, err
	}
	if _, err := m.collect(ctx, ref); err != nil {
		slog.WarnContext(ctx, "image garbage collection after a pull failed", "image", ref, "error", err)
	}
	return img, nil
}

// fetch pulls an image from its registry and returns its compressed size in bytes.
func (m *Store) fetch(ctx context.Context, ref string) (client.Image, int64, error) {
	from, err := m.registries.Puller(ref, m.client.ContentStore(), m.most)
	if err != nil {
		return nil, 0, pullError(ref, err)
	}
	defer from.Close()
	img, err := m.client.Pull(ctx, ref, client.WithPullUnpack, client.WithPullSnapshotter(Snapshotter),
		client.WithResolver(from.Resolver()), client.WithImageHandlerWrapper(from.Count), client.WithPullLabel(pulledLabel, "1"))
	if err != nil {
		return nil, 0, pullError(ref, from.Judge(err))
	}
	m.answered(ref)
	return img, from.Size(), nil
}

// pullError classifies a failed pull of ref: job.ErrInvalid for a wrong name, and runtime.ErrImage
// if a later attempt may succeed. The registry's response only goes to the worker's log, because it
// may come from elsewhere.
func pullError(ref string, err error) error {
	if err == nil {
		return nil
	}
	slog.Warn("image pull failed", "image", ref, "error", err)
	if no := registry.Refused(ref, err); no != nil {
		return no
	}
	if unpacking(err) {
		return unpackError(err)
	}
	return fmt.Errorf("%w: %s", runtime.ErrImage, registry.Trouble(err))
}

package containerd

import (
	"context"
	"path/filepath"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/containerd/registry"
)

var _ runtime.ImageLister = (*Runtime)(nil)

// ImageDigests implements runtime.ImageLister.
func (r *Runtime) ImageDigests() map[string]string { return r.images.Digests() }

// Images implements runtime.ImageLister.
func (r *Runtime) Images() (some []policy.HostImage, more int) { return r.images.List() }

// imagesConfig returns the configuration of the image store. It does not contact containerd.
func (r *Runtime) imagesConfig() (image.Config, error) {
	from, err := registry.Open(registry.Config{Registries: r.cfg.ImageRegistries, Mirrors: r.cfg.ImageMirrors, Credentials: r.cfg.ImageCredentials})
	if err != nil {
		return image.Config{}, err
	}
	dir := filepath.Join(r.dir, "images")
	c := image.Config{
		Dir: dir, Instance: instance(dir),
		Registries: from, Always: r.cfg.ImageAlways, Trusted: r.cfg.TrustedImages, Most: r.cfg.ImageSize, Space: r.cfg.ImagesMost,
		Rest: r.restOn, Spawn: func(f func(context.Context)) bool { return r.background.Spawn(func() { f(r.background.Context()) }) },
	}
	return c, c.Check()
}

// restOn unmounts unused environments on an image's root file system.
func (r *Runtime) restOn(chain string) {
	if r.environments != nil {
		r.environments.rest(chain)
	}
}

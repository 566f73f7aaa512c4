package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/assay-run/assay/pkg/policy"
	rt "github.com/assay-run/assay/pkg/runtime"
)

var _ rt.ImageLister = (*Runtime)(nil)

// digestOf returns the fake digest of an image name.
func digestOf(name string) string {
	sum := sha256.Sum256([]byte("fake image " + name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ImageDigests implements rt.ImageLister.
func (r *Runtime) ImageDigests() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.images)
}

// Images implements rt.ImageLister. A fake has all requested images.
func (r *Runtime) Images() (out []policy.HostImage, more int) {
	digests := r.ImageDigests()
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		out = append(out, policy.HostImage{Name: name, Digest: digests[name]})
	}
	return policy.SomeImages(out)
}

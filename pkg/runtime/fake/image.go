package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	rt "github.com/assay-run/assay/pkg/runtime"
)

var _ rt.Imager = (*Runtime)(nil)

// digestOf is what an image of that name would have for a digest here.
func digestOf(name string) string {
	sum := sha256.Sum256([]byte("fake image " + name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ImageDigests implements rt.Imager.
func (r *Runtime) ImageDigests() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.images)
}

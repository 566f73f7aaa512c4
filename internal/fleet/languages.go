package fleet

import (
	"maps"
	"strings"

	"github.com/assay-run/assay/pkg/policy"
)

// Languages returns which languages an image has, with their versions, as its label says on the workers that are there. It
// returns nil if none of them says so, or while they do not agree, as an image is being replaced.
func (f *Fleet) Languages(image string) map[string]string {
	r := f.now()
	if r == nil {
		return nil
	}
	name := policy.ImageName(image)
	if last := name[strings.LastIndex(name, "/")+1:]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	var found map[string]string
	for i := range r.workers {
		for _, img := range r.workers[i].Host.Images {
			if img.Name != name {
				continue
			}
			if img.Languages == nil || found != nil && !maps.Equal(found, img.Languages) {
				return nil
			}
			found = img.Languages
		}
	}
	return found
}

package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/policy"
)

// Languages returns the languages of an image with their versions, from the image label that the workers report. It
// returns nil if no worker reports one, or if the workers disagree, as while an image is replaced.
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

// Lacks reports whether an image is known to lack a language of the catalogue, and returns the languages that it has.
// It reads the workers again first, since the image may be new. An image without a label lacks none.
func (f *Fleet) Lacks(image, language string) (has []string, lacks bool) {
	if _, ok := f.Languages(image)[language]; ok {
		return nil, false
	}
	f.fresh()
	there := f.Languages(image)
	if _, ok := there[language]; ok || there == nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(there)), true
}

// With returns the short names of the operator's images that have a language of the catalogue. It leaves out images
// that were pulled for jobs, and images that the workers disagree about.
func (f *Fleet) With(language string) []string {
	var out []string
	for _, w := range f.List() {
		for _, img := range w.Host.Images {
			if _, ok := img.Languages[language]; ok && !img.Pulled {
				out = append(out, policy.ShortName(img.Name))
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(name string) bool {
		_, agreed := f.Languages(name)[language]
		return !agreed
	})
}

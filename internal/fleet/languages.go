package fleet

import (
	"maps"
	"slices"
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

// Lacks reports whether an image is known not to have a language of the catalogue, and which it has: nobody is refused for want of
// an image that has come since the workers were last asked. Of an image without a label nothing is known.
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

// With returns the operator's images that are known to have a language of the catalogue, by the names by which jobs name them. Those
// that jobs brought are the business of whoever named them.
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

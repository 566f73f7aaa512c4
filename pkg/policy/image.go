package policy

import (
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// localImages is the prefix of images that workers hold and never pull. A bare name means such an
// image.
const localImages = "assay.local"

// ImageName returns the full name of a job's image: python becomes assay.local/python,
// library/python becomes docker.io/library/python. It keeps a tag or digest.
func ImageName(image string) string {
	host, path, ok := strings.Cut(image, "/")
	switch {
	case !ok:
		return localImages + "/" + image
	case !isHost(host):
		host, path = "docker.io", image
	case host == "index.docker.io":
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return host + "/" + path
}

// ShortName returns the shortest name by which a job can select an image, given its full name.
func ShortName(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, localImages+"/"), ":latest")
}

// isHost distinguishes the name of a registry from the first component of a path on Docker Hub.
func isHost(s string) bool {
	return strings.ContainsAny(s, ".:") || s == "localhost" || s != strings.ToLower(s)
}

// CheckImage returns nil if c allows jobs with image, or a *Refusal. Local images are always
// allowed.
func (c Ceiling) CheckImage(image string) error {
	if len(c.Registries) == 0 {
		return nil
	}
	name := ImageName(image)
	if strings.HasPrefix(name, localImages+"/") {
		return nil
	}
	if slices.ContainsFunc(c.Registries, func(r string) bool { return strings.HasPrefix(name, r+"/") }) {
		return nil
	}
	return &Refusal{[]*job.FieldError{{Field: "image", Problem: name + " is not within the ceiling of registries: " + names(c.Registries)}}}
}

// badRegistry returns the problem of an entry of Ceiling.Registries, or "".
func badRegistry(entry string) string {
	host, path, _ := strings.Cut(entry, "/")
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.ContainsRune("._-/:", c)
	}
	switch {
	case strings.Contains(entry, "://"):
		return "omit the scheme: the workers' configuration selects TLS"
	case entry == "" || host == "" || !isHost(host) || strings.ContainsFunc(entry, func(c rune) bool { return !plain(c) }),
		strings.Contains(path, ":"), strings.Contains(entry, "//"), strings.HasSuffix(entry, "/"), host == "index.docker.io":
		return "must be the beginning of whole names of images, such as docker.io/library, ghcr.io or registry.corp:5000/team"
	}
	return ""
}

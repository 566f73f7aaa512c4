package image

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// operators reports whether the operator vouches for what the name means here: it is
// never pulled, came from an archive of the worker's, or is one that they trust.
func (m *Store) operators(ref string, labels map[string]string) bool {
	if strings.HasPrefix(ref, localDomain+"/") || labels[archiveLabel] != "" {
		return true
	}
	return among(m.trusted, ref)
}

// among reports whether ref is one of names, of whatever tag, or begins with one that ends in a slash.
func among(names []string, ref string) bool {
	return slices.ContainsFunc(names, func(t string) bool {
		rest, ok := strings.CutPrefix(ref, t)
		return ok && (rest == "" || strings.HasSuffix(t, "/") || rest[0] == ':' || rest[0] == '@')
	})
}

// checkTrusted says what is wrong with names of images that the operator trusts.
func checkTrusted(names []string) error {
	for _, name := range names {
		full := strings.TrimSuffix(name, "/")
		if named, err := reference.ParseNormalizedNamed(full); err != nil || named.String() != full && !strings.HasSuffix(name, "/") {
			return fmt.Errorf("%q is not the whole name of an image, such as docker.io/library/python, or the beginning of names up to a slash", name)
		}
	}
	return nil
}

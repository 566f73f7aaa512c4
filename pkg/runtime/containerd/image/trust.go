package image

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// operators reports whether the operator trusts the current image of a name: it is local, was
// imported from an archive, or is a trusted name.
func (m *Store) operators(ref string, labels map[string]string) bool {
	if strings.HasPrefix(ref, localDomain+"/") || labels[archiveLabel] != "" {
		return true
	}
	return among(m.trusted, ref)
}

// among reports whether ref is one of names with any tag, or has one that ends in a slash as
// prefix.
func among(names []string, ref string) bool {
	return slices.ContainsFunc(names, func(t string) bool {
		rest, ok := strings.CutPrefix(ref, t)
		return ok && (rest == "" || strings.HasSuffix(t, "/") || rest[0] == ':' || rest[0] == '@')
	})
}

// checkTrusted returns the problem of a list of trusted images.
func checkTrusted(names []string) error {
	for _, name := range names {
		full := strings.TrimSuffix(name, "/")
		if named, err := reference.ParseNormalizedNamed(full); err != nil || named.String() != full && !strings.HasSuffix(name, "/") {
			return fmt.Errorf("%q is neither the full name of an image, such as docker.io/library/python, nor a prefix of names up to a slash", name)
		}
	}
	return nil
}

package image

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Sources are the operator's settings for registries: see ParseSources.
type Sources struct {
	Registries []string // registries for pulls
	Mirrors    []string // preferred registries, as HOST=MIRROR
	Trusted    []string // images that count as the operator's own: names, or prefixes up to a slash
	Always     []string // images to check at their registry for each job, likewise
}

// ParseSources reads the operator's settings for registries, one entry each:
//
//	[http://]HOST[:PORT][/PATH][?ATTRIBUTES]
//	HOST=MIRROR
//
// A path may select one image. Attributes, separated by &, apply to all names below the entry:
// trusted, and pull=always, pull=if_not_present or pull=never. The error names the wrong entry.
func ParseSources(entries []string) (s Sources, err error) {
	for _, entry := range entries {
		at, query, _ := strings.Cut(entry, "?")
		if of, _, mirror := strings.Cut(at, "="); mirror {
			if strings.Contains(of, "/") || query != "" {
				return s, fmt.Errorf("%.200q: a mirror stands for a whole host, such as docker.io=mirror.example.com/hub, in addition to the registry, and has no attributes", entry)
			}
			s.Mirrors = append(s.Mirrors, entry)
			continue
		}
		q, err := url.ParseQuery(query)
		if err != nil {
			return s, fmt.Errorf("%.200q is not like ghcr.io/ours?trusted&pull=always", entry)
		}
		for _, k := range slices.Sorted(maps.Keys(q)) {
			if k != "pull" && (k != "trusted" || q.Get(k) != "") {
				return s, fmt.Errorf("%.200q: %.100s is neither trusted nor pull=", entry, k)
			}
		}
		names := below(at)
		if q.Has("trusted") {
			if err := checkTrusted(names); err != nil {
				return s, err
			}
			s.Trusted = append(s.Trusted, names...)
		}
		switch pull := q.Get("pull"); {
		case pull == "never":
			continue
		case pull == "always":
			s.Always = append(s.Always, names...)
		case q.Has("pull") && pull != "if_not_present":
			return s, fmt.Errorf("%.200q: pull is one of always, if_not_present and never", entry)
		}
		s.Registries = append(s.Registries, at)
	}
	return s, nil
}

// below returns the names at an entry: all names with it as a prefix up to a slash, and the entry
// itself if it may be an image.
func below(at string) (names []string) {
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(at, "http://"), "https://"), "/")
	named, err := reference.ParseNormalizedNamed(name)
	whole := err == nil && named.String() == name
	if whole {
		names = append(names, name)
	}
	if !whole || reference.IsNameOnly(named) {
		names = append(names, name+"/")
	}
	return names
}

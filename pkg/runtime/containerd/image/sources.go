package image

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/distribution/reference"
)

// Sources are where images may come from, and what is said of those that do: see ParseSources.
type Sources struct {
	Registries []string // that images may be pulled from
	Mirrors    []string // that are asked before one of them, as HOST=MIRROR
	Trusted    []string // whose images are as good as the operator's own: names, or beginnings up to a slash
	Always     []string // that are asked again for what is there, likewise
}

// ParseSources reads what an operator says of registries, an entry each:
//
//	[http://]HOST[:PORT][/PATH][?ATTRIBUTES]
//	HOST=MIRROR
//
// A path may be that of one image. Attributes, separated by &, hold for all names below the entry: trusted, and pull=always,
// pull=if_not_present or pull=never. The error names the entry that is wrong.
func ParseSources(entries []string) (s Sources, err error) {
	for _, entry := range entries {
		at, query, _ := strings.Cut(entry, "?")
		if of, _, mirror := strings.Cut(at, "="); mirror {
			if strings.Contains(of, "/") || query != "" {
				return s, fmt.Errorf("%.200q: a mirror is of a whole host, such as docker.io=mirror.example.com/hub, beside the registry itself, and has no attributes", entry)
			}
			s.Mirrors = append(s.Mirrors, entry)
			continue
		}
		q, err := url.ParseQuery(query)
		if err != nil {
			return s, fmt.Errorf("%.200q is not like ghcr.io/ours?trusted&pull=always", entry)
		}
		for k := range q {
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

// below are the names at an entry: all that begin with it up to a slash, and itself where it may be an image's.
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

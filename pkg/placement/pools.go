package placement

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Pools holds the operator's settings of pools of workers, by name. Workers cannot decide these
// settings, and they must be known while no worker is connected. Other pools may have workers, too.
type Pools map[string]Pool

// Pool holds the settings of one pool.
type Pool struct {
	Exclusive bool              // its workers run only jobs that name the pool
	Labels    map[string]string // labels that all of its workers have
	Images    []string          // images that they are reserved for
}

// ParsePools reads a pool from each text:
//
//	default
//	gpu?exclusive&label.gpu=a100&image=cuda
//
// The part after the ? is escaped as in a URL. The error wraps job.ErrInvalid.
func ParsePools(texts []string) (Pools, error) {
	ps := Pools{}
	for _, text := range texts {
		name, query, _ := strings.Cut(strings.TrimSpace(text), "?")
		name, err := url.PathUnescape(name)
		q, qerr := url.ParseQuery(query)
		if err != nil || qerr != nil {
			return nil, job.Invalid("pools", "%q is not like gpu?exclusive&label.gpu=a100&image=cuda", text)
		}
		if _, twice := ps[name]; twice || name == "" {
			return nil, job.Invalid("pools", "%q: every pool has a name of its own", text)
		}
		var p Pool
		for _, k := range slices.Sorted(maps.Keys(q)) {
			label, isLabel := strings.CutPrefix(k, "label.")
			switch {
			case k == "exclusive" && q.Get(k) == "":
				p.Exclusive = true
			case k == "image":
				p.Images = q[k]
			case isLabel && len(q[k]) == 1:
				if p.Labels == nil {
					p.Labels = map[string]string{}
				}
				p.Labels[label] = q.Get(k)
			default:
				return nil, job.Invalid("pools", "%q: %s is none of exclusive, label.NAME=VALUE and image=NAME", text, k)
			}
		}
		ps[name] = p
	}
	return ps, nil
}

// Exclusive reports whether the workers of a pool run only jobs that name it.
func (ps Pools) Exclusive(pool string) bool { return ps[pool].Exclusive }

// Offer returns the expected offer of the pool's workers. It assumes all isolations, unlimited
// memory and the current protocol, because settings have none of these.
func (ps Pools) Offer(pool string) Offer {
	p := ps[pool]
	return Offer{Exclusive: p.Exclusive, Labels: Speaking(p.Labels, Languages), Images: p.Images, Isolations: []policy.Isolation{policy.GVisor, policy.VM}}
}

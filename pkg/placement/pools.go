package placement

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Pools are what an operator says of pools of workers, by their names: what workers
// cannot say of themselves, and what is to be known while none of them lives. Pools that
// nobody has said anything about may have workers, too.
type Pools map[string]Pool

// Pool is what is said of one pool.
type Pool struct {
	Exclusive bool              // its workers take jobs that name it, and no others
	Labels    map[string]string // that its workers have, as far as all of them do
	Images    []string          // that they are reserved for
}

// ParsePools reads a pool from each text:
//
//	default
//	gpu?exclusive&label.gpu=a100&image=cuda
//
// What is behind the ? is escaped as in a URL. The error wraps job.ErrInvalid.
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

// Exclusive says whether the workers of a pool take nothing but jobs that name it.
func (ps Pools) Exclusive(pool string) bool { return ps[pool].Exclusive }

// Offer is what workers of the pool will offer as far as it was said. What was not, their isolations, their memory
// and the protocol that they speak, they are taken to have.
func (ps Pools) Offer(pool string) Offer {
	p := ps[pool]
	return Offer{Exclusive: p.Exclusive, Labels: Speaking(p.Labels, Languages), Images: p.Images, Isolations: []policy.Isolation{policy.GVisor, policy.VM}}
}

package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
)

// Lack says why no connected worker can run the jobs of a class; "" if one can, or
// nothing is known.
func (f *Fleet) Lack(class string) string {
	need := placement.ParseClass(class)
	if lack(need, f.List()) == "" {
		return ""
	}
	return lack(need, f.fresh())
}

// lack says why none of the workers can run what has a need; "" if one can, or none is known.
func lack(need placement.Need, all []Worker) string {
	if all == nil {
		return ""
	}
	open, cordoned, closed := 0, 0, map[string]bool{} // pools that would take it if it named them
	for _, h := range all {
		switch {
		case h.Takes(need) && h.Cordoned:
			cordoned++
		case h.Takes(need):
			return ""
		case h.Offer.Open(h.Pool, need):
			open++
		case need.Pool == placement.Any && h.Offer.Lacks(need) == "":
			closed[h.Pool] = true
		}
	}
	if cordoned > 0 {
		return "waits for a worker: an operator keeps those that could run it from taking jobs"
	}
	who := "none that takes jobs without the name of a pool"
	if need.Pool != placement.Any {
		who = fmt.Sprintf("none of pool %q", need.Pool)
	}
	why := "waits for a worker: " + who + " is connected"
	switch {
	case open > 0 && need.String() == "":
		why = "waits for a worker: those of its pool that are connected are reserved for certain images"
	case open > 0:
		why = fmt.Sprintf("waits for a worker: %s that is connected has what the job needs (%s)", who, need)
	}
	if len(closed) > 0 {
		why += fmt.Sprintf("; pool %s could run it, if the job named it", strings.Join(slices.Sorted(maps.Keys(closed)), " or "))
	}
	return why
}

func (f *Fleet) lookBack(ctx context.Context) (map[string]bool, error) {
	ws, err := f.store.Workers(ctx, Remembered)
	names := map[string]bool{}
	for _, w := range ws {
		names[w.Pool] = true
	}
	return names, err
}

// Pool refuses the name of a pool that does not exist. Where no pool is known, or the list
// cannot be read, any name is good.
func (f *Fleet) Pool(ctx context.Context, name string) error {
	if _, known := f.pools[name]; known {
		return nil
	}
	if f.past.Latest()[name] {
		return nil
	}
	names, known, _ := f.past.Get(ctx)
	if !known {
		return nil
	}
	all := maps.Clone(names)
	for p := range f.pools {
		all[p] = true
	}
	if len(all) == 0 || all[name] {
		return nil
	}
	return job.Invalid("pool", "there is no pool %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

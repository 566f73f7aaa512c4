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

// Lack returns why no connected worker can run the jobs of a class; "" if one can, or if no worker is known.
func (f *Fleet) Lack(class string) string {
	need := placement.ParseClass(class)
	if wait, _ := lacks(need, f.List()); wait == "" {
		return ""
	}
	_, why := lacks(need, f.fresh())
	return why
}

// lacks returns which wait applies to jobs with a need, and why, if none of the workers can run them. It returns ""
// if one can, or if all is nil.
func lacks(need placement.Need, all []Worker) (job.Wait, string) {
	if all == nil {
		return "", ""
	}
	open, closed := 0, map[string]bool{} // pools that would take the job if it named them
	var cordoned, paused []string        // by whom, and why
	for _, h := range all {
		switch {
		case h.Takes(need) && h.Cordon != nil && h.Cordon.Pool:
			paused = append(paused, fmt.Sprintf("pool %s is resumed: paused by %s", h.Pool, h.Cordon.Origin()))
		case h.Takes(need) && h.Cordon != nil:
			cordoned = append(cordoned, h.Cordon.Origin())
		case h.Takes(need):
			return "", ""
		case h.Offer.Open(h.Pool, need):
			open++
		case need.Pool == placement.Any && h.Offer.Lacks(need) == "":
			closed[h.Pool] = true
		}
	}
	switch {
	case len(cordoned) > 0:
		return job.WaitsWorker, "waits for a worker: the suitable workers are cordoned by " + distinct(cordoned)
	case len(paused) > 0:
		return job.WaitsPaused, "waits until " + distinct(paused)
	}
	wait, who := job.WaitsWorker, "no worker"
	if need.Pool != placement.Any {
		wait, who = job.WaitsPool, fmt.Sprintf("no worker of pool %q", need.Pool)
	}
	why := "waits for a worker: " + who + " is connected"
	switch {
	case open > 0 && need.String() == "":
		wait, why = job.WaitsImage, "waits for a worker: the connected workers of its pool are reserved for certain images"
	case open > 0:
		wait, why = job.WaitsNeeds, fmt.Sprintf("waits for a worker: %s is connected with what the job needs (%s)", who, need)
	}
	if len(closed) > 0 {
		wait = job.WaitsPool
		if open == 0 {
			why = "waits for a worker: none is connected that takes jobs without a pool"
		}
		why += fmt.Sprintf("; pool %s could run it, if the job named it", strings.Join(slices.Sorted(maps.Keys(closed)), " or "))
	}
	return wait, why
}

// distinct joins the first distinct texts, and counts the rest.
func distinct(texts []string) string {
	const most = 3
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, "; ")
}

func (f *Fleet) lookBack(ctx context.Context) (map[string]bool, error) {
	ws, err := f.store.Workers(ctx, Remembered)
	names := map[string]bool{}
	for _, w := range ws {
		names[w.Pool] = true
	}
	return names, err
}

// Pool returns job.ErrInvalid if no pool has this name. It accepts any name if no pool is known or the list cannot
// be read.
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

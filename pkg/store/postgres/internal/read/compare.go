package read

import (
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// compare pairs the jobs of two batches, and returns n of the flipped ones, starting at from.
func compare(a, b *side, from, n int) *store.Comparison {
	c := &store.Comparison{By: "position", Compared: int64(max(len(a.ids), len(b.ids))), Cut: a.cut || b.cut, Flips: []store.Flip{}}
	if inA, inB := places(a.names), places(b.names); inA != nil && inB != nil {
		c.By = "name"
		pair(c, a, b, func(i int) (int, bool) { at, ok := inB[a.names[i]]; return at, ok })
	} else {
		pair(c, a, b, func(i int) (int, bool) { return i, i < len(b.ids) })
	}
	slices.SortStableFunc(c.Flips, func(x, y store.Flip) int { return rank(x) - rank(y) })
	all := len(c.Flips)
	c.Flips = c.Flips[min(from, all):min(from+n, all)]
	if from+n < all {
		c.FlipsNext = from + n
	}
	return c
}

// rank sorts broken jobs before fixed ones.
func rank(f store.Flip) int {
	if f.OutcomeB == job.Succeeded {
		return 1
	}
	return 0
}

// places returns the index of each name; nil if names repeat or are missing.
func places(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := at[name]; twice || name == "" {
			return nil
		}
		at[name] = i
	}
	return at
}

// pair compares each job of a with its other in b and counts the results.
func pair(c *store.Comparison, a, b *side, other func(i int) (int, bool)) {
	pairs := int64(0)
	for i := range a.ids {
		k, ok := other(i)
		if !ok {
			c.OnlyA++
			continue
		}
		pairs++
		was, is := a.ends[i], b.ends[k]
		switch flip := (store.Flip{Name: a.names[i], Position: i, A: a.ids[i], B: b.ids[k], OutcomeA: was, OutcomeB: is}); {
		case !was.OfProgram() || !is.OfProgram():
			c.Unended++
		case was == is:
			c.Same++
		case was == job.Succeeded:
			c.Broken++
			c.Flips = append(c.Flips, flip)
		case is == job.Succeeded:
			c.Fixed++
			c.Flips = append(c.Flips, flip)
		default:
			c.Other++
		}
	}
	c.OnlyB = int64(len(b.ids)) - pairs
}

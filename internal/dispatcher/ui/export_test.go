package ui

import (
	"maps"
	"slices"
)

// Patterns returns the patterns of all pages.
func Patterns() (out []string) {
	for _, r := range (&Server{}).routes() {
		out = append(out, r.pattern)
	}
	return out
}

// Actions returns the names of all actions.
func Actions() []string { return slices.Sorted(maps.Keys(actions)) }

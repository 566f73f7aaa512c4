package ui

import (
	"maps"
	"slices"
)

// Patterns are those of all pages.
func Patterns() (out []string) {
	for _, r := range (&Server{}).routes() {
		out = append(out, r.pattern)
	}
	return out
}

// Actions are the names of all actions.
func Actions() []string { return slices.Sorted(maps.Keys(actions)) }

// Package images is what the images of jobs are built from, embedded: `assay dev` and `assay image build` build them where
// this repository is not.
package images

import "embed"

// Recipes has the scripts build and languages, and the recipe of each image of jobs in a folder of its own.
//
//go:embed build languages python tools polyglot
var Recipes embed.FS

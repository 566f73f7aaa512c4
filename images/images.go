// Package images embeds the recipes of the images of jobs, so that `assay dev` and `assay image build` can build them without
// this repository.
package images

import "embed"

// Recipes has the scripts build and languages, and a folder with the recipe of each image of jobs.
//
//go:embed build languages python tools polyglot
var Recipes embed.FS

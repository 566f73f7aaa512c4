// Package images is what the default image of jobs is built from, embedded: `assay dev` builds it where this repository
// is not.
package images

import "embed"

// Python has the script build, and the recipe of the image python in a folder of its own.
//
//go:embed build python
var Python embed.FS

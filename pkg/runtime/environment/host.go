package environment

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
)

// ErrCollected means that an image or an environment was removed before it could be held. A
// repeated request recreates it.
var ErrCollected = errors.New("the image has just been collected")

// Host is the runtime's interface for environments. Mounts are identified by the names of their
// layers.
type Host interface {
	// Context returns a context that ends when the runtime closes.
	Context() context.Context
	// Join delays the closing of the runtime until leave. It returns an error if the runtime is
	// already closing.
	Join() (leave func(), err error)
	// Detach hides the mount with this name from later requests, unless it is in use: then ok is
	// false. The caller calls unmount, which is nil if there is no such mount.
	Detach(name string) (unmount func(), ok bool)
	// LastUse returns when the mount with this name was last in use, or zero if there is none.
	LastUse(name string) time.Time
}

// Image is a mounted image, with or without packages.
type Image interface {
	// Hold keeps the image until release is called. The error is ErrCollected if it is gone.
	Hold() (release func(), err error)
}

// Base is the image of an environment.
type Base struct {
	Name   string   // its reference, for people
	Digest string   // of its manifest or index
	Env    []string // from its configuration
	Root   string   // its root file system, mounted read-only
	Image  BaseImage
}

// BaseImage has the runtime's operations on a base.
type BaseImage interface {
	Image
	// Run runs an attempt in a new task sandbox on the image. If the program succeeded, it calls look
	// with the sandbox's /workspace after all processes have ended.
	Run(ctx context.Context, a runtime.Attempt, look func(workspace *os.Root)) (*runtime.Report, error)
	// Mount mounts a layer over the image's root file system, and holds the image while the layer is
	// mounted.
	Mount(l Layer) (Image, error)
}

// Layer is the addition of an environment to its base.
type Layer struct {
	Name     string   // of the environment on this host
	Dir      string   // the directory of its files
	Digest   string   // digest of base and layer together
	Packages []string // requirements with hashes, as in results
}

// Count records the start of a build or a fetch for an image. It returns a context for the work and
// a function to record its end.
type Count func(ctx context.Context, image string) (_ context.Context, ended func(bytes int64, err error))

// begin calls c, which may be nil.
func (c Count) begin(ctx context.Context, image string) (_ context.Context, ended func(bytes int64, err error)) {
	if c == nil {
		return ctx, func(int64, error) {}
	}
	return c(ctx, image)
}

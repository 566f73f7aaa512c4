package environment

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
)

// ErrCollected says that an image, or an environment, was removed to make room between
// its being found and its being held. Whoever asks again has it made.
var ErrCollected = errors.New("the image has just been collected")

// Host is what environments need of the runtime that they belong to. Mounts are known by
// the names of their layers.
type Host interface {
	// Context ends when the runtime closes.
	Context() context.Context
	// Join has the closing of the runtime wait for leave. The error says that it closes already.
	Join() (leave func(), err error)
	// Detach has nobody find the mount of that name any more, unless it is in use: then ok is
	// false. The caller calls unmount, which is nil if there is no such mount.
	Detach(name string) (unmount func(), ok bool)
	// LastUse returns when the mount of that name was in use last; zero: there is none.
	LastUse(name string) time.Time
}

// Image is an image that is mounted on this host, with packages or without.
type Image interface {
	// Hold keeps it there until release is called. The error is ErrCollected if it is there
	// no more.
	Hold() (release func(), err error)
}

// Base is an image that packages are added to.
type Base struct {
	Name   string   // its reference, for people
	Digest string   // of its manifest or index
	Env    []string // of its configuration
	Root   string   // its root file system, mounted read-only
	Image  BaseImage
}

// BaseImage does with a base what only the runtime can do.
type BaseImage interface {
	Image
	// Run runs an attempt in a new sandbox of isolation task on the image. If the program
	// succeeded, look is called with the sandbox's /workspace once everything in it is dead.
	Run(ctx context.Context, a runtime.Attempt, look func(workspace *os.Root)) (*runtime.Report, error)
	// Mount mounts a layer over the image's root file system, and holds the image as long as
	// that is mounted.
	Mount(l Layer) (Image, error)
}

// Layer is what an environment adds to its base.
type Layer struct {
	Name     string   // of the environment on this host
	Dir      string   // where its files are
	Digest   string   // what base and layer are together
	Packages []string // requirements with hashes, as results show them
}

// Count is told that a build or a fetch for an image begins, and returns what is to be told
// of its end. Work goes on under the context that it returns.
type Count func(ctx context.Context, image string) (_ context.Context, ended func(bytes int64, err error))

// begin is c, which may be nil.
func (c Count) begin(ctx context.Context, image string) (_ context.Context, ended func(bytes int64, err error)) {
	if c == nil {
		return ctx, func(int64, error) {}
	}
	return c(ctx, image)
}

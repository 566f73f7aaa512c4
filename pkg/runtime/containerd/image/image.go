// Package image keeps the images of a containerd and their root file systems: it finds what a
// job names, pulls it from a registry or imports it from an archive, mounts its layers
// read-only once on this host, and removes what nobody uses when space runs out.
//
// An Image that Get returns is there until it is collected. Who makes something of it holds
// it meanwhile; Hold fails with ErrCollected if it has gone in between, and whoever gets it
// again finds it, or has it made. Further layers may be stacked on an image: environments of
// packages are such images.
//
// Get fails with job.ErrInvalid if a job names what is no image or may not be had, and with
// runtime.ErrImage if it may be had another time, or by another worker. Every other error is
// this host's, or that of its containerd.
package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// localDomain is where images live that are imported and never pulled.
const localDomain = "assay.local"

// Image is an image that containers can be made of. Nobody writes to it.
type Image struct {
	Name   string   // normalised reference
	Digest string   // of the manifest or index that the name means, or what Stack was told
	Env    []string // of its configuration
	Dir    string   // that commands start in by its configuration; empty: it says none that they may enter
	User   string   // that its configuration names
	Login  string   // name of the user that programs run as, see addAccounts
	Rootfs string   // its root file system, mounted read-only on this host

	// Own is the operator's image that this one is, or adds packages to. Only from
	// its root starts what has a capability or is forked for others; nil: a tenant
	// brought the image, and there is none. See ADR 0013.
	Own *Image

	Packages []string // that were stacked on it, as requirements with hashes

	root *root // that is mounted at Rootfs; nil: it is never collected
	seen overlay.Seen
}

// RootName is the name that img's root file system is kept under: that of a chain of layers,
// or of what was stacked; empty if it is never collected.
func (img *Image) RootName() string {
	if img.root == nil {
		return ""
	}
	return img.root.name
}

// Overlays returns what the scratch of a sandbox of img begins with, nil for nothing.
func (m *Store) Overlays(img *Image, l sandbox.Layout) (*overlay.Overlays, error) {
	return overlay.Of(img.Rootfs, &img.seen, l, func() []string { return m.beneath(img) })
}

// beneath returns the directories that img's root file system is made of, the top first.
func (m *Store) beneath(img *Image) []string {
	layers, err := m.layers(img.Rootfs)
	if err != nil { // it is mounted no more, and of no use to a sandbox
		return []string{img.Rootfs}
	}
	out := make([]string, len(layers))
	for i, l := range layers {
		out[i] = overlay.Unescape(l)
	}
	return out
}

// OwnRoot mounts a view of a root file system at dir, and returns dir. It is an error if that is not mounted here.
func (m *Store) OwnRoot(dir, rootfs string) (string, error) {
	layers, err := m.layers(rootfs)
	if err != nil {
		return "", err
	}
	return overlay.View(dir, layers)
}

// Trouble is err of what was made of img: runtime.ErrImage if a tenant brought it, for
// then it may be the image's, and says nothing about this worker.
func (img *Image) Trouble(err error) error {
	if err == nil || img.Own != nil || errors.Is(err, job.ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: no sandbox of it starts here: %w", runtime.ErrImage, err)
}

// imageName normalises a job's image: a bare name is one of our own images,
// anything else is a registry reference.
func imageName(name string) (string, error) {
	if !strings.Contains(name, "/") {
		name = localDomain + "/" + name
	}
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", job.Invalid("image", "%q is not an image reference such as python or docker.io/library/python:3.12", name)
	}
	return ref.String(), nil
}

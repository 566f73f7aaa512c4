// Package image manages the images of a containerd and their root file systems. It finds a job's
// image, pulls it from a registry or imports it from an archive, and mounts its layers read-only
// once on this host. It removes unused images when space is short.
//
// An Image from Get exists until it is collected. Hold prevents this; it fails with ErrCollected if
// the image is gone, and a repeated Get finds or recreates it. Further layers may be stacked on an
// image: package environments are such images.
//
// Get returns job.ErrInvalid for a malformed or forbidden image, and runtime.ErrImage if a later
// attempt or another worker may succeed. Other errors are this host's or its containerd's.
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

// localDomain is the domain of images that are imported and never pulled.
const localDomain = "assay.local"

// Image is an image for containers. It is read-only.
type Image struct {
	Name   string   // normalised reference
	Digest string   // of the manifest or index, or from Stack
	Env    []string // from its configuration
	Dir    string   // the working directory of commands; empty: none that they may enter
	User   string   // from its configuration
	Login  string   // name of the user of programs, see addAccounts
	Rootfs string   // its root file system, mounted read-only on this host

	// Own is the operator's image that this one is, or that it extends. Only programs from its root
	// may have capabilities or be forked for others. Nil: a tenant's image, without such programs.
	// See ADR 0013.
	Own *Image

	Packages []string // packages stacked on it, as requirements with hashes

	root *root // the mount at Rootfs; nil: never collected
	seen overlay.DirCache
}

// RootName returns the key of img's root file system: a chain of layers, or a stacked image. It
// returns "" if it is never collected.
func (img *Image) RootName() string {
	if img.root == nil {
		return ""
	}
	return img.root.name
}

// Overlays returns the initial content of the scratch of a sandbox of img, or nil.
func (m *Store) Overlays(img *Image, l sandbox.Layout) (*overlay.Overlays, error) {
	return overlay.Of(img.Rootfs, &img.seen, l, func() []string { return m.beneath(img) })
}

// beneath returns the directories of img's root file system, top first.
func (m *Store) beneath(img *Image) []string {
	layers, err := m.layers(img.Rootfs)
	if err != nil { // it is not mounted any more, so a sandbox cannot use it
		return []string{img.Rootfs}
	}
	out := make([]string, len(layers))
	for i, l := range layers {
		out[i] = overlay.Unescape(l)
	}
	return out
}

// OwnRoot mounts a view of a root file system at dir, and returns dir. It returns an error if the
// root file system is not mounted.
func (m *Store) OwnRoot(dir, rootfs string) (string, error) {
	layers, err := m.layers(rootfs)
	if err != nil {
		return "", err
	}
	return overlay.View(dir, layers)
}

// WritableRoot mounts a writable view of an image on a disk: see overlay.Root.
func (m *Store) WritableRoot(img *Image, target, disk string, first int, stage string) error {
	return overlay.Root(target, m.beneath(img), disk, first, stage)
}

// Trouble classifies an error from using img. For a tenant's image it returns runtime.ErrImage: the
// image may be at fault, so the error does not count against this worker.
func (img *Image) Trouble(err error) error {
	if err == nil || img.Own != nil || errors.Is(err, job.ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: no sandbox of it starts here: %w", runtime.ErrImage, err)
}

// imageName normalizes a job's image. A bare name is one of our own images, other names are
// registry references.
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

// Package ociimage writes a root file system as an OCI image layout inside a tar archive.
//
// It supports only the needs of this repository's images: layers, one platform, a name for the
// importer. The format is the OCI image layout 1.0 that `ctr images import`, containerd's client
// and skopeo's oci-archive read.
package ociimage

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Media types of the OCI image specification 1.0.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+zstd"
)

// Config is the part of an image's configuration that a container starts with. The JSON names follow the
// specification.
type Config struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`

	Volumes      map[string]struct{} `json:"Volumes,omitempty"`      // paths that must not be in the container's own layer
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"` // such as 8080/tcp
	StopSignal   string              `json:"StopSignal,omitempty"`   // default: SIGTERM
}

// Image describes the image to write, except its layers.
type Image struct {
	// Name is the full reference, tag included, under which an importer stores the image.
	Name string
	// Config is the configuration of the image's containers.
	Config Config
	// Created is the time in the image. Equal inputs and times give equal bytes.
	Created time.Time
	// Architecture is in Go's naming; empty: the architecture of the running program.
	Architecture string
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type imageConfig struct {
	platform
	Created time.Time `json:"created"`
	Config  Config    `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// Write writes an image to w as an archive. Its layers are the uncompressed tar streams, the lowest
// first. The archive has the layers' digests before the layers, so they are first compressed to
// temporary files in dir (default: the system's). Write returns the digest of the manifest, which
// identifies the image.
func Write(w io.Writer, img Image, dir string, layers ...io.Reader) (digest string, err error) {
	var spools []*os.File
	defer func() {
		for _, s := range spools {
			_ = s.Close()
			_ = os.Remove(s.Name())
		}
	}()
	var packed []descriptor
	var diffs []string
	for _, l := range layers {
		spool, err := os.CreateTemp(dir, "layer-")
		if err != nil {
			return "", fmt.Errorf("spool a layer: %w", err)
		}
		spools = append(spools, spool)
		layer, diffID, err := compress(spool, l)
		if err != nil {
			return "", fmt.Errorf("compress a layer: %w", err)
		}
		if _, err := spool.Seek(0, io.SeekStart); err != nil {
			return "", fmt.Errorf("rewind a layer: %w", err)
		}
		packed, diffs = append(packed, layer), append(diffs, diffID)
	}
	return write(w, img, packed, diffs, spools)
}

// write writes the archive of the layers in blobs.
func write(w io.Writer, img Image, layers []descriptor, diffs []string, blobs []*os.File) (digest string, err error) {
	if img.Architecture == "" {
		img.Architecture = runtime.GOARCH
	}
	p := platform{Architecture: img.Architecture, OS: "linux"}
	config, configBytes := blob(mediaConfig, imageConfig{
		platform: p, Created: img.Created.UTC(), Config: img.Config,
		RootFS: rootFS{Type: "layers", DiffIDs: diffs},
	})
	man, manBytes := blob(mediaManifest, manifest{
		SchemaVersion: 2, MediaType: mediaManifest, Config: config, Layers: layers,
	})
	man.Platform = &p
	// The first annotation is containerd's own and holds a full name; the second is from the
	// specification.
	man.Annotations = map[string]string{
		"io.containerd.image.name":          img.Name,
		"org.opencontainers.image.ref.name": img.Name,
	}
	_, indexBytes := blob(mediaIndex, index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{man}})

	a := &archive{tw: tar.NewWriter(w), modTime: img.Created}
	a.bytes("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	a.bytes("index.json", indexBytes)
	a.bytes(blobPath(man), manBytes)
	a.bytes(blobPath(config), configBytes)
	for i, l := range layers {
		a.file(blobPath(l), l.Size, blobs[i])
	}
	if err := a.close(); err != nil {
		return "", fmt.Errorf("write the archive: %w", err)
	}
	return man.Digest, nil
}

// compress writes r to w as zstd and returns the descriptor of the compressed blob and the digest
// of the input.
func compress(w io.Writer, r io.Reader) (layer descriptor, diffID string, err error) {
	plain, packed := sha256.New(), sha256.New()
	size := &counter{}
	zw, err := zstd.NewWriter(io.MultiWriter(w, packed, size), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return descriptor{}, "", err
	}
	if _, err := io.Copy(io.MultiWriter(zw, plain), r); err != nil {
		return descriptor{}, "", err
	}
	if err := zw.Close(); err != nil {
		return descriptor{}, "", err
	}
	return descriptor{MediaType: mediaLayer, Digest: digestOf(packed), Size: size.n}, digestOf(plain), nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func digestOf(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// blob encodes v; the types of this file always encode.
func blob(mediaType string, v any) (descriptor, []byte) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("ociimage: encode %T: %v", v, err))
	}
	h := sha256.New()
	h.Write(data)
	return descriptor{MediaType: mediaType, Digest: digestOf(h), Size: int64(len(data))}, data
}

func blobPath(d descriptor) string { return "blobs/sha256/" + d.Digest[len("sha256:"):] }

// archive keeps the first error, so that its calls need no error checks.
type archive struct {
	tw      *tar.Writer
	modTime time.Time
	err     error
}

func (a *archive) bytes(name string, data []byte) {
	a.file(name, int64(len(data)), nil)
	if a.err == nil {
		_, a.err = a.tw.Write(data)
	}
}

// file writes a header and, if r is given, exactly size bytes from it.
func (a *archive) file(name string, size int64, r io.Reader) {
	if a.err != nil {
		return
	}
	a.err = a.tw.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: a.modTime, Format: tar.FormatUSTAR,
	})
	if a.err == nil && r != nil {
		_, a.err = io.CopyN(a.tw, r, size)
	}
}

func (a *archive) close() error {
	if a.err != nil {
		return a.err
	}
	return a.tw.Close()
}

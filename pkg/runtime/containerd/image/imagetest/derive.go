package imagetest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	imagespkg "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// snapshotter is image.Snapshotter, which this package cannot import.
const snapshotter = "overlayfs"

// Entry is a file of a layer. Text is the content of a regular file.
type Entry struct {
	tar.Header
	Text string
}

// File returns a file that root owns.
func File(name string, mode int64, text string) Entry {
	return Entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(text))}, text}
}

// Layer packs entries.
func Layer(t *testing.T, entries []Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.Mode == 0 {
			e.Mode = 0o755
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.Text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Derive imports the image of under another name, with additional layers and an edited
// configuration.
func Derive(t *testing.T, c *client.Client, of, name string, edit func(*ocispec.Image), layers ...[]Entry) {
	t.Helper()
	ctx := t.Context()
	base, err := c.GetImage(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	store := c.ContentStore()
	m, err := imagespkg.Manifest(ctx, store, base.Target(), base.Platform())
	if err != nil {
		t.Fatal(err)
	}
	config, err := base.Spec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var blobs [][]byte
	for _, l := range layers {
		blobs = append(blobs, Layer(t, l))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, ocispec.DescriptorEmptyJSON.Digest.Algorithm().FromBytes(blobs[len(blobs)-1]))
	}
	if edit != nil {
		edit(&config)
	}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	Store(t, c, name, m, data, blobs...)
	if img, err := c.GetImage(ctx, name); err != nil {
		t.Fatal(err)
	} else if err := img.Unpack(ctx, snapshotter); err != nil {
		t.Fatal(err)
	}
}

// Store stores an image with m's layers, more layers, and a configuration in containerd.
func Store(t *testing.T, c *client.Client, name string, m ocispec.Manifest, config []byte, layers ...[]byte) {
	t.Helper()
	ctx, done, err := c.WithLease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = done(ctx) }()
	for _, l := range layers {
		m.Layers = append(m.Layers, Blob(ctx, t, c, ocispec.MediaTypeImageLayer, l, nil))
	}
	m.MediaType, m.Config = ocispec.MediaTypeImageManifest, Blob(ctx, t, c, ocispec.MediaTypeImageConfig, config, nil)
	m.SchemaVersion = 2
	refs := map[string]string{"containerd.io/gc.ref.content.config": m.Config.Digest.String()}
	for i, l := range m.Layers {
		refs[fmt.Sprintf("containerd.io/gc.ref.content.l.%d", i)] = l.Digest.String()
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	img := imagespkg.Image{Name: name, Target: Blob(ctx, t, c, ocispec.MediaTypeImageManifest, data, refs)}
	Point(ctx, t, c, img)
}

// Blob stores data in containerd with labels for its references.
func Blob(ctx context.Context, t *testing.T, c *client.Client, kind string, data []byte, labels map[string]string) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: kind, Digest: ocispec.DescriptorEmptyJSON.Digest.Algorithm().FromBytes(data), Size: int64(len(data))}
	err := content.WriteBlob(ctx, c.ContentStore(), d.Digest.String(), bytes.NewReader(data), d, content.WithLabels(labels))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return d
}

// Point makes a name refer to an image.
func Point(ctx context.Context, t *testing.T, c *client.Client, img imagespkg.Image) {
	t.Helper()
	_, err := c.ImageService().Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = c.ImageService().Update(ctx, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

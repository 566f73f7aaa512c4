package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	imagespkg "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
)

// entry is a file of a layer; the text is a regular one's.
type entry struct {
	tar.Header
	text string
}

// file is a file of root's.
func file(name string, mode int64, text string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(text))}, text}
}

// layerOf packs entries.
func layerOf(t *testing.T, entries []entry) []byte {
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
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// derived imports the default image under another name, with more layers on top of its
// own and its configuration changed.
func derived(t *testing.T, r *Runtime, name string, edit func(*ocispec.Image), layers ...[]entry) {
	t.Helper()
	ctx := t.Context()
	base, err := r.client.GetImage(ctx, testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	store := r.client.ContentStore()
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
		blobs = append(blobs, layerOf(t, l))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, ocispec.DescriptorEmptyJSON.Digest.Algorithm().FromBytes(blobs[len(blobs)-1]))
	}
	if edit != nil {
		edit(&config)
	}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	stored(t, r, name, m, data, blobs...)
	if img, err := r.client.GetImage(ctx, name); err != nil {
		t.Fatal(err)
	} else if err := img.Unpack(ctx, image.Snapshotter); err != nil {
		t.Fatal(err)
	}
}

// stored has containerd store an image of m's layers, more layers, and a configuration.
func stored(t *testing.T, r *Runtime, name string, m ocispec.Manifest, config []byte, layers ...[]byte) {
	t.Helper()
	ctx, done, err := r.client.WithLease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = done(ctx) }()
	for _, l := range layers {
		m.Layers = append(m.Layers, blob(ctx, t, r, ocispec.MediaTypeImageLayer, l, nil))
	}
	m.MediaType, m.Config = ocispec.MediaTypeImageManifest, blob(ctx, t, r, ocispec.MediaTypeImageConfig, config, nil)
	m.SchemaVersion = 2
	refs := map[string]string{"containerd.io/gc.ref.content.config": m.Config.Digest.String()}
	for i, l := range m.Layers {
		refs[fmt.Sprintf("containerd.io/gc.ref.content.l.%d", i)] = l.Digest.String()
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	img := imagespkg.Image{Name: name, Target: blob(ctx, t, r, ocispec.MediaTypeImageManifest, data, refs)}
	points(ctx, t, r, img)
}

// indexed puts the image called name into an index, as that of a platform.
func indexed(t *testing.T, r *Runtime, name string, platform ocispec.Platform) {
	t.Helper()
	ctx := t.Context()
	img, err := r.client.ImageService().Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	img.Target.Platform = &platform
	data, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageIndex, "manifests": []any{img.Target}})
	if err != nil {
		t.Fatal(err)
	}
	img.Target = blob(ctx, t, r, ocispec.MediaTypeImageIndex, data, map[string]string{"containerd.io/gc.ref.content.m": img.Target.Digest.String()})
	points(ctx, t, r, img)
}

func blob(ctx context.Context, t *testing.T, r *Runtime, kind string, data []byte, labels map[string]string) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: kind, Digest: ocispec.DescriptorEmptyJSON.Digest.Algorithm().FromBytes(data), Size: int64(len(data))}
	err := content.WriteBlob(ctx, r.client.ContentStore(), d.Digest.String(), bytes.NewReader(data), d, content.WithLabels(labels))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return d
}

// points has a name mean an image, whatever it meant before.
func points(ctx context.Context, t *testing.T, r *Runtime, img imagespkg.Image) {
	t.Helper()
	_, err := r.client.ImageService().Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = r.client.ImageService().Update(ctx, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everywhere is a runtime with all isolations of this host, and their names.
func everywhere(t *testing.T) (*Runtime, []policy.Isolation) {
	t.Helper()
	return newRuntime(t, withGVisor(t)), []policy.Isolation{policy.Cell, policy.Task, policy.GVisor}
}

// try runs an attempt in an image.
func try(t *testing.T, r *Runtime, isolation policy.Isolation, image string, a runtime.Attempt, edit func(*policy.Policy)) (*runtime.Report, error) {
	t.Helper()
	s, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: image, Isolation: isolation, Kind: a.Program.Kind()})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	a.Job, a.Lease, a.Plan = job.NewID(), 1, plan(t, r.Host(), isolation, edit)
	return s.Run(t.Context(), a)
}

// sh is a program of the shell.
func sh(lines ...string) job.Program {
	return job.Program{Command: &job.Command{Argv: []string{"bash", "-ec", strings.Join(lines, "\n")}}}
}

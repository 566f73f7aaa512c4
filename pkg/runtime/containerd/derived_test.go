package containerd

import (
	"encoding/json"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

type entry = imagetest.Entry

var file, layerOf = imagetest.File, imagetest.Layer

// derived imports the default image under another name, with more layers on top of its
// own and its configuration changed.
func derived(t *testing.T, r *Runtime, name string, edit func(*ocispec.Image), layers ...[]entry) {
	t.Helper()
	imagetest.Derive(t, r.client, testenv.Image, name, edit, layers...)
}

// stored has containerd store an image of m's layers, more layers, and a configuration.
func stored(t *testing.T, r *Runtime, name string, m ocispec.Manifest, config []byte, layers ...[]byte) {
	t.Helper()
	imagetest.Store(t, r.client, name, m, config, layers...)
}

// indexed puts the image called name into an index, as a platform's image.
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
	img.Target = imagetest.Blob(ctx, t, r.client, ocispec.MediaTypeImageIndex, data, map[string]string{"containerd.io/gc.ref.content.m": img.Target.Digest.String()})
	imagetest.Point(ctx, t, r.client, img)
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
	a.Job, a.Lease, a.Plan = job.NewID(), 1, runtimetest.Plan(t, r.Host(), isolation, edit)
	return s.Run(t.Context(), a)
}

// sh is a program of the shell.
func sh(lines ...string) job.Program {
	return job.Program{Command: &job.Command{Argv: []string{"bash", "-ec", strings.Join(lines, "\n")}}}
}

func pySnippet(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }

func shell(script string) job.Program {
	return job.Program{Command: &job.Command{Argv: []string{"bash", "-c", script}}}
}

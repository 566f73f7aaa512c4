package registry

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestRegistriesAreRead(t *testing.T) {
	t.Parallel()
	list, err := parseRegistries([]string{"docker.io/library", "ghcr.io", "http://127.0.0.1:5000", "registry.corp:5000/team/"})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"docker.io/library/python:3": "registry-1.docker.io:443", "docker.io/libraryx/a:1": "", "docker.io/other/a:1": "",
		"ghcr.io/a/b:1": "ghcr.io:443", "ghcr.io.evil.example/a:1": "", "127.0.0.1:5000/a:1": "127.0.0.1:5000", "127.0.0.1:50001/a:1": "",
		"registry.corp:5000/team/a:1": "registry.corp:5000", "registry.corp:5000/teams/a:1": "", "registry.corp/team/a:1": "",
	} {
		if r, ok := registryOf(list, ref); ok != (want != "") || r.host != want {
			t.Errorf("%s: %+v, %v; want %q", ref, r, ok, want)
		}
	}
	for _, bad := range []string{"", "a b", "ftp://x.example", "UPPER.example/Path", "x.example/a:1", "user@x.example"} {
		if got, err := parseRegistries([]string{bad}); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// TestImageSizeCounts checks that layers that are small each, or compressed, count with their full size.
func TestImageSizeCounts(t *testing.T) {
	t.Parallel()
	s := &size{most: 100}
	for i, want := range []error{nil, nil, errSize} {
		if err := s.declare(ocispec.Descriptor{MediaType: images.MediaTypeDockerSchema2LayerGzip, Size: 40}); err != want {
			t.Errorf("layer %d: %v, want %v", i, err, want)
		}
	}
	s = &size{most: 1 << 40}
	var err error
	for range layersMost + 1 {
		err = s.declare(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer})
	}
	if err != errLayers {
		t.Errorf("many layers: %v", err)
	}
	if err := s.declare(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Size: manifestMost + 1}); err != errSize {
		t.Errorf("a large manifest: %v", err)
	}
	s = &size{most: 100, entries: entriesMost}
	if err := s.entry(0); err != errLayers {
		t.Errorf("many files: %v", err)
	}
}

package containerd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	imagespkg "github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/pkg/job"
)

// hostileRegistry serves one image whose layer is blob; the manifest says of it what edit makes of it.
func hostileRegistry(t *testing.T, blob []byte, edit func(*ocispec.Descriptor), blobs http.HandlerFunc) (url string) {
	t.Helper()
	sum := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	plain := blob
	if z, err := gzip.NewReader(bytes.NewReader(blob)); err == nil {
		if plain, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["` + sum(plain) + `"]}}`)
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: "", Size: int64(len(blob))}
	layerSum := sum(blob)
	raw := func() []byte {
		d := map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest}
		if edit != nil {
			edit(&layer)
		}
		d["config"] = map[string]any{"mediaType": ocispec.MediaTypeImageConfig, "digest": sum(config), "size": len(config)}
		d["layers"] = []any{map[string]any{"mediaType": layer.MediaType, "digest": layerSum, "size": layer.Size, "urls": layer.URLs}}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := raw
		switch {
		case strings.HasSuffix(r.URL.Path, layerSum):
			if blobs != nil {
				blobs(w, r)
				return
			}
			body = blob
		case strings.HasSuffix(r.URL.Path, sum(config)):
			body = config
		default:
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", sum(raw))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// canary is a server of the host's that no registry may have the worker call.
func canary(t *testing.T) (address string, called *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	called = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			called.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), called
}

func zipped(t *testing.T, write func(w io.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whoever runs a registry does not choose where the worker goes, nor what it stores.
// On 5ee7338 it did: a redirected blob, the realm of a token and a layer's foreign
// urls, with TLS or without, each had the worker connect to this canary on loopback.
func TestHostileRegistries(t *testing.T) {
	secret, called := canary(t)
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
	}
	realm := func(to string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+to+`",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	layer := func(seed string) []byte { return zipped(t, func(w io.Writer) { _, _ = io.WriteString(w, seed) }) }
	bomb := zipped(t, func(w io.Writer) {
		a := tar.NewWriter(w)
		_ = a.WriteHeader(&tar.Header{Name: "zeros", Size: 32 << 20, Mode: 0o644})
		_, _ = a.Write(make([]byte, 32<<20))
		_ = a.Close()
	})
	cases := map[string]struct{ url, want string }{
		"blob redirected to a local server":      {hostileRegistry(t, layer("1"), nil, redirect("http://"+secret+"/x")), "without TLS"},
		"blob redirected with TLS":               {hostileRegistry(t, layer("2"), nil, redirect("https://"+secret+"/x")), "not public"},
		"blob redirected to a name of this host": {hostileRegistry(t, layer("3"), nil, redirect("https://localhost:"+secret[strings.LastIndex(secret, ":")+1:])), "not public"},
		"blob redirected to the metadata":        {hostileRegistry(t, layer("4"), nil, redirect("https://169.254.169.254/latest")), "not public"},
		"token from a local server":              {realm("http://" + secret + "/token"), "without TLS"},
		"token from a local server with TLS":     {realm("https://" + secret + "/token"), "not public"},
		"foreign layer that is not distributable": {hostileRegistry(t, layer("7"), func(d *ocispec.Descriptor) {
			//lint:ignore SA1019 nobody should make such a layer any more, and an enemy may
			d.MediaType, d.URLs = ocispec.MediaTypeImageLayerNonDistributableGzip, []string{"https://" + secret + "/layer"}
		}, nil), "urls"},
		"foreign layer":           {hostileRegistry(t, layer("5"), func(d *ocispec.Descriptor) { d.URLs = []string{"http://" + secret + "/layer"} }, nil), "urls"},
		"huge by its declaration": {hostileRegistry(t, layer("6"), func(d *ocispec.Descriptor) { d.Size = 1 << 40 }, nil), "larger"},
		"huge when unpacked":      {hostileRegistry(t, bomb, nil, nil), "larger"},
	}
	good := hostileRegistry(t, zipped(t, func(w io.Writer) { // an image as it should be
		a := tar.NewWriter(w)
		_ = a.WriteHeader(&tar.Header{Name: "hello", Size: 5, Mode: 0o644})
		_, _ = io.WriteString(a, "hello")
		_ = a.Close()
	}), nil, nil)
	list := []string{good}
	for _, c := range cases {
		list = append(list, c.url)
	}
	m := newRuntime(t, func(c *Config) { c.ImageRegistries, c.ImageSize = list, 16*job.MiB }).images
	for name, c := range cases {
		_, err := m.get(t.Context(), strings.TrimPrefix(c.url, "http://")+"/a/b:1")
		if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error of the job's that says %q", name, err, c.want)
		}
	}
	if _, err := m.get(t.Context(), strings.TrimPrefix(good, "http://")+"/a/b:1"); err != nil {
		t.Errorf("a good image: %v", err)
	}
	_, err := m.get(t.Context(), secret+"/a/b:1")
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "--image-registries") || !strings.Contains(err.Error(), secret) {
		t.Errorf("a registry that is not listed: %v", err)
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d connections to where the registries sent the worker", n)
	}
}

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

// Layers that are small each, or in the archive, count as what they come to.
func TestImageSizeCounts(t *testing.T) {
	t.Parallel()
	s := &imageSize{most: 100}
	for i, want := range []error{nil, nil, errImageSize} {
		if err := s.declare(ocispec.Descriptor{MediaType: imagespkg.MediaTypeDockerSchema2LayerGzip, Size: 40}); err != want {
			t.Errorf("layer %d: %v, want %v", i, err, want)
		}
	}
	s = &imageSize{most: 1 << 40}
	var err error
	for range layersMost + 1 {
		err = s.declare(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer})
	}
	if err != errImageLayers {
		t.Errorf("many layers: %v", err)
	}
	if err := s.declare(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Size: manifestMost + 1}); err != errImageSize {
		t.Errorf("a large manifest: %v", err)
	}
	s = &imageSize{most: 100, entries: entriesMost}
	if err := s.entry(0); err != errImageLayers {
		t.Errorf("many files: %v", err)
	}
}

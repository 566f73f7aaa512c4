// Package imagetest provides images for tests: registries of one image each, both correct and
// malicious, and derived images in a containerd.
package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Serve serves one image with blob as its layer. edit changes the layer's entry in the manifest.
func Serve(t *testing.T, blob []byte, edit func(*ocispec.Descriptor), blobs http.HandlerFunc) (url string) {
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

// Zipped returns the output of write, compressed.
func Zipped(t *testing.T, write func(w io.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Registries are registries of one image each. Each image has one MiB packed and one MiB unpacked.
type Registries struct {
	Refs, URLs []string
	Pulled     [8]atomic.Int64
}

// NewRegistries starts n registries, at most 8.
func NewRegistries(t *testing.T, n int) *Registries {
	t.Helper()
	s := &Registries{}
	for i := range n {
		noise := make([]byte, 1<<20)
		_, _ = rand.Read(noise)
		blob := Zipped(t, func(w io.Writer) {
			a := tar.NewWriter(w)
			for name, data := range map[string][]byte{"noise": noise, "name": fmt.Append(nil, i)} {
				_ = a.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644})
				_, _ = a.Write(data)
			}
			_ = a.Close()
		})
		url := Serve(t, blob, nil, func(w http.ResponseWriter, _ *http.Request) {
			s.Pulled[i].Add(1)
			w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
			_, _ = w.Write(blob)
		})
		s.URLs = append(s.URLs, url)
		s.Refs = append(s.Refs, strings.TrimPrefix(url, "http://")+"/a/b:1")
	}
	return s
}

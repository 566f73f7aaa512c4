package ociimage_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/assay-run/assay/internal/ociimage"
)

const rootfs = "any bytes will do: a layer is not looked into"

func write(t *testing.T) (digest string, archive []byte) {
	t.Helper()
	var out bytes.Buffer
	digest, err := ociimage.Write(&out, ociimage.Image{
		Name:         "example.test/tools:1",
		Created:      time.Unix(1, 0),
		Architecture: "arm64",
		Config:       ociimage.Config{Env: []string{"A=b"}, WorkingDir: "/w"},
	}, t.TempDir(), strings.NewReader(rootfs))
	if err != nil {
		t.Fatal(err)
	}
	return digest, out.Bytes()
}

// layout reads an archive as an importer does: by name and by digest.
type layout map[string][]byte

func readLayout(t *testing.T, archive []byte) layout {
	t.Helper()
	files := layout{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// blob returns the content of a descriptor after checking its digest and size.
func (l layout) blob(t *testing.T, d map[string]any) []byte {
	t.Helper()
	digest := d["digest"].(string)
	data, ok := l["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]
	if !ok {
		t.Fatalf("no blob %s", digest)
	}
	if got := sum(data); got != digest || float64(len(data)) != d["size"] {
		t.Errorf("blob %s has digest %s and %d bytes; the descriptor says %v", digest, got, len(data), d["size"])
	}
	return data
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(s[:])
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWriteIsALayoutThatHoldsTogether(t *testing.T) {
	t.Parallel()
	digest, archive := write(t)
	files := readLayout(t, archive)
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout = %s", got)
	}

	entry := decode(t, files["index.json"])["manifests"].([]any)[0].(map[string]any)
	if entry["digest"] != digest {
		t.Errorf("Write returned %s, the index names %s", digest, entry["digest"])
	}
	annotations := entry["annotations"].(map[string]any)
	if got := annotations["io.containerd.image.name"]; got != "example.test/tools:1" {
		t.Errorf("name for the importer = %v", got)
	}

	manifest := decode(t, files.blob(t, entry))
	config := decode(t, files.blob(t, manifest["config"].(map[string]any)))
	want := map[string]any{
		"architecture": "arm64", "os": "linux", "created": "1970-01-01T00:00:01Z",
		"config": map[string]any{"Env": []any{"A=b"}, "WorkingDir": "/w"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{sum([]byte(rootfs))}},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	layers := manifest["layers"].([]any)
	if len(layers) != 1 {
		t.Fatalf("%d layers", len(layers))
	}
	zr, err := zstd.NewReader(bytes.NewReader(files.blob(t, layers[0].(map[string]any))))
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	if got, err := io.ReadAll(zr); err != nil || string(got) != rootfs {
		t.Errorf("layer = %q, %v", got, err)
	}
}

func TestWriteIsReproducible(t *testing.T) {
	t.Parallel()
	_, a := write(t)
	_, b := write(t)
	if !bytes.Equal(a, b) {
		t.Error("equal inputs gave different archives")
	}
}

func TestWriteLeavesNoSpoolBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := errors.New("disk on fire")
	_, err := ociimage.Write(io.Discard, ociimage.Image{Name: "x"}, dir, iotest.ErrReader(broken))
	if !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// failAfter is a disk that runs full.
type failAfter struct{ n int }

func (w *failAfter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, errors.New("no space")
	}
	return len(p), nil
}

func TestWriteReportsAFullDisk(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, 600, 1200, 3000} {
		_, err := ociimage.Write(&failAfter{room}, ociimage.Image{Name: "x"}, t.TempDir(), strings.NewReader(rootfs))
		if err == nil || !strings.Contains(err.Error(), "no space") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
}

package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/ociimage"
	"github.com/assay-run/assay/pkg/job"
)

// rootOf packs the entries of an image's only layer.
func rootOf(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func directory(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }

func symlink(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
}

// An image in which a mountpoint is a link is the job's mistake, and is never
// used: on 5ee7338 a link within the image was mounted over wherever it led.
func TestImagesWithLinksAtMountpoints(t *testing.T) {
	m := newStore(t, nil)
	for name, root := range map[string]*bytes.Buffer{
		"tmp":       rootOf(t, directory("usr"), symlink("tmp", "usr")),
		"run":       rootOf(t, directory("usr"), symlink("run", "usr")),
		"run-assay": rootOf(t, directory("usr"), directory("run"), symlink("run/assay", "../usr")),
		"proc-out":  rootOf(t, symlink("proc", "/proc")),
		"dev-up":    rootOf(t, symlink("dev", "../../../../dev")),
		"workspace": rootOf(t, tar.Header{Name: "workspace", Typeflag: tar.TypeReg}),
		"sys-loop":  rootOf(t, symlink("sys", "sys")),
	} {
		image := "assay.local/bad-" + name + ":1"
		archive := filepath.Join(t.TempDir(), "image.tar")
		f, err := os.Create(archive)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ociimage.Write(f, ociimage.Image{Name: image, Created: time.Unix(0, 0)}, t.TempDir(), root); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(), m.ImportArchive(t.Context(), archive)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := m.Get(t.Context(), image); !errors.Is(err, job.ErrInvalid) {
				t.Errorf("%s: got %v, want it to be refused", name, err)
			}
		}
	}
}

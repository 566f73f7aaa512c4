package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	imagespkg "github.com/containerd/containerd/v2/core/images"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
)

// openHost is the images of a namespace of this test's own.
func openHost(t *testing.T, namespace string, trusted ...string) *Host {
	t.Helper()
	s, err := OpenHost(t.Context(), testenv.Containerd(t).Address, namespace, trusted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// emptyHost is a namespace without images. Its images are removed with the test, and the remains of an
// earlier run now.
func emptyHost(t *testing.T, name string) *Host {
	t.Helper()
	s := openHost(t, testenv.Containerd(t).Namespace+"-"+name)
	clear := func() {
		ctx := context.WithoutCancel(t.Context())
		all, err := s.List(ctx)
		if err != nil {
			t.Error(err)
		}
		for _, i := range all {
			if err := s.store.client.ImageService().Delete(ctx, i.Name, imagespkg.SynchronousDelete()); err != nil {
				t.Error(err)
			}
		}
	}
	clear()
	t.Cleanup(clear)
	return s
}

// tarOf is an archive of files, in the order of pairs.
func tarOf(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	a := tar.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		if err := a.WriteHeader(&tar.Header{Name: pairs[i], Size: int64(len(pairs[i+1])), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		_, _ = a.Write([]byte(pairs[i+1]))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// saved is what docker save writes of an image with one file.
func saved(t *testing.T, content string, names ...string) []byte {
	t.Helper()
	layer := tarOf(t, "name", content)
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256(layer))
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c.json", "RepoTags": names, "Layers": []string{"l.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, "c.json", config, "l.tar", string(layer), "manifest.json", string(manifest))
}

// ociLayout is an archive of an OCI layout whose only image has a name, and a layer or not.
func ociLayout(t *testing.T, name string, whole bool) []byte {
	t.Helper()
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	layer := string(tarOf(t, "name", fmt.Sprint("layout", whole)))
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}`, sum(layer))
	const kind = "application/vnd.oci.image."
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%smanifest.v1+json","config":{"mediaType":"%sconfig.v1+json","digest":"sha256:%s","size":%d},"layers":[{"mediaType":"%slayer.v1.tar","digest":"sha256:%s","size":%d}]}`,
		kind, kind, sum(config), len(config), kind, sum(layer), len(layer))
	index := fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":"%smanifest.v1+json","digest":"sha256:%s","size":%d,"annotations":{"org.opencontainers.image.ref.name":%q}}]}`,
		kind, sum(manifest), len(manifest), name)
	files := []string{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`, "index.json", index, "blobs/sha256/" + sum(manifest), manifest, "blobs/sha256/" + sum(config), config}
	if whole {
		files = append(files, "blobs/sha256/"+sum(layer), layer)
	}
	return tarOf(t, files...)
}

func squeezed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func archived(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestShelfImports checks that imported images are available under the names in the archive, and that another
// archive with the name replaces them.
func TestShelfImports(t *testing.T) {
	s := emptyHost(t, "images")
	for what, data := range map[string][]byte{
		"assay.local/swe:1 docker.io/library/swe:2": saved(t, "saved", "assay.local/swe:1", "swe:2"),
		"assay.local/zip:1":                         squeezed(t, saved(t, "zipped", "assay.local/zip:1")),
		"assay.local/layout:1":                      ociLayout(t, "assay.local/layout:1", true),
	} {
		got, err := s.Import(t.Context(), archived(t, data))
		var names []string
		for _, i := range got {
			names = append(names, i.Name)
			if !strings.HasPrefix(i.Digest, "sha256:") || i.Bytes < 1000 || i.Pulled {
				t.Errorf("%s: imported %+v", what, i)
			}
		}
		if err != nil || strings.Join(names, " ") != what {
			t.Errorf("%s: imported %q, %v", what, names, err)
		}
	}
	before, err := s.List(t.Context())
	if err != nil || len(before) != 4 {
		t.Fatalf("there are %+v, %v", before, err)
	}
	if _, err := s.Import(t.Context(), archived(t, saved(t, "another", "assay.local/swe:1"))); err != nil {
		t.Fatal(err)
	}
	after, err := s.List(t.Context())
	if err != nil || len(after) != 4 || after[1].Name != "assay.local/swe:1" || after[1].Digest == before[1].Digest {
		t.Errorf("replaced: %+v, %v, before %+v", after, err, before)
	}
}

// TestShelfImportsNothingElse checks that a file that is no image archive is refused, and that nothing of it
// becomes an image.
func TestShelfImportsNothingElse(t *testing.T) {
	s := emptyHost(t, "refused")
	whole := saved(t, "x", "assay.local/x:1")
	for says, data := range map[string][]byte{
		"is not an image archive":                []byte("hello"),
		"it is not an image archive":             nil,
		"as docker save":                         tarOf(t, "x", "y"),
		"it is not an image":                     squeezed(t, tarOf(t, "x", "y")),
		"unexpected EOF":                         whole[:len(whole)/2],
		"no image with a full name":              saved(t, "x"),
		`its images have the names "latest"`:     ociLayout(t, "latest", true),
		`the names "UPPER/x"`:                    ociLayout(t, "UPPER/x", true),
		"is incomplete: 1 of its parts":          ociLayout(t, "assay.local/x:1", false),
		`layer "l.tar" not found`:                tarOf(t, "c.json", "{}", "manifest.json", `[{"Config":"c.json","RepoTags":["assay.local/x:1"],"Layers":["l.tar"]}]`),
		"no image for Linux on the architecture": []byte(strings.ReplaceAll(string(saved(t, "x", "assay.local/x:1")), `"amd64"`, `"s390x"`)),
		"invalid character":                      tarOf(t, "manifest.json", "hello"),
	} {
		file := archived(t, data)
		_, err := s.Import(t.Context(), file)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := s.Import(t.Context(), t.TempDir()); !errors.Is(err, errNoArchive) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := s.Import(t.Context(), "/no/such.tar"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if all, err := s.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("there are %+v, %v", all, err)
	}
	if err := s.Check(archived(t, []byte("hello"))); !errors.Is(err, errNoArchive) {
		t.Errorf("checked: %v", err)
	}
	if err := s.Check(archived(t, whole)); err != nil {
		t.Errorf("checked: %v", err)
	}
}

// TestImagesAreBounded checks that images beyond the reported number are counted.
func TestImagesAreBounded(t *testing.T) {
	all := make([]storedImage, policy.MaxHostImages+3)
	for i := range all {
		all[i].record.Name, all[i].pulled = fmt.Sprintf("a/%03d", len(all)-i), i != 7
		all[i].bytes, all[i].unsure = 1, map[bool]error{true: errors.New("x")}[i == 7]
	}
	some, more := policy.SomeImages(hostImages(all))
	if more != 3 || len(some) != policy.MaxHostImages || some[0].Pulled || some[0].Bytes != 0 || some[1].Name != "a/001" || some[1].Bytes != 1 {
		t.Errorf("%d, and %d more: %+v", len(some), more, some[:2])
	}
}

package image

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	imagespkg "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// archiveLabel marks imported images with their archive.
const archiveLabel = "assay.dev/archive"

// ImportArchive imports an archive, unless this version of the file was imported before.
func (m *Store) ImportArchive(ctx context.Context, file string) error {
	mark, err := markOf(file)
	if err != nil {
		return fmt.Errorf("image archive: %w; build it with make image", err)
	}
	have, err := m.client.ImageService().List(ctx, fmt.Sprintf("labels.%q==%s", archiveLabel, mark))
	if err != nil {
		return fmt.Errorf("import %s: %w", file, err)
	}
	if len(have) > 0 {
		return nil
	}
	_, err = importFile(ctx, m.client, file)
	return err
}

// markOf returns an identifier of an archive's current version.
func markOf(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", abs, info.Size(), info.ModTime().UnixNano()))
	return hex.EncodeToString(sum[:16]), nil
}

// importFile imports all named images of an archive from docker save or skopeo, compressed or not.
// After an error it imports none.
func importFile(ctx context.Context, c *client.Client, file string) (out []imagespkg.Image, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("import %s: %w", file, err)
		}
	}()
	mark, err := markOf(file)
	if err != nil {
		return nil, err
	}
	if err := checkArchive(file); err != nil {
		return nil, err
	}
	f, err := openArchive(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ctx, done, err := c.WithLease(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }()
	found, err := readImages(ctx, c, f)
	if err != nil {
		return nil, err
	}
	for _, img := range found {
		img.Labels = map[string]string{archiveLabel: mark}
		if img, err = put(ctx, c.ImageService(), img); err != nil {
			return nil, err
		}
		out = append(out, img)
	}
	return out, nil
}

// put makes a name refer to an image, replacing any previous one.
func put(ctx context.Context, s imagespkg.Store, img imagespkg.Image) (imagespkg.Image, error) {
	made, err := s.Update(ctx, img, "target", "labels")
	if errdefs.IsNotFound(err) {
		made, err = s.Create(ctx, img)
	}
	return made, err
}

// readImages stores the content of an archive and returns its complete, named images. Content
// without an image is freed with the lease of ctx.
func readImages(ctx context.Context, c *client.Client, f io.Reader) (out []imagespkg.Image, err error) {
	store, ours := c.ContentStore(), client.NewImage(c, imagespkg.Image{}).Platform()
	index, err := archive.ImportIndex(ctx, store, f)
	if err != nil {
		if strings.Contains(err.Error(), "unrecognized image format") {
			err = errNoArchive
		}
		return nil, err
	}
	list := imagespkg.FilterPlatforms(imagespkg.ChildrenHandler(store), ours)
	if err := imagespkg.WalkNotEmpty(ctx, imagespkg.SetChildrenLabels(store, list), index); err != nil {
		if errors.Is(err, imagespkg.ErrEmptyWalk) {
			err = errNoMachine
		}
		return nil, err
	}
	data, err := content.ReadBlob(ctx, store, index)
	if err != nil {
		return nil, err
	}
	var top ocispec.Index
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	err = errNoName
	for _, m := range top.Manifests {
		name := cmp.Or(m.Annotations[imagespkg.AnnotationImageName], m.Annotations[ocispec.AnnotationRefName])
		if ref, bad := imageName(name); bad != nil || ref != name {
			if name != "" {
				err = fmt.Errorf("%w: its images have the names %.200q", errNoName, name)
			}
			continue
		}
		if _, _, _, missing, err := imagespkg.Check(ctx, store, m, ours); err != nil || len(missing) > 0 {
			return nil, errors.Join(fmt.Errorf("%s is incomplete: %d of its parts are missing", name, len(missing)), err)
		}
		out = append(out, imagespkg.Image{Name: name, Target: m})
	}
	if len(out) > 0 {
		err = nil
	}
	return out, err
}

var (
	errNoArchive = errors.New("it is not an image archive, as docker save and skopeo copy … oci-archive: write")
	errNoMachine = errors.New("it has no image for Linux on the architecture of this machine")
	errNoName    = errors.New("it has no image with a full name, such as assay.local/swe:1 or docker.io/library/python:3.12")
)

// checkArchive checks whether a file may be an archive before its import. A compressed one is only
// checked by its import.
func checkArchive(file string) error {
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.GetCompression() != compression.Uncompressed {
		return nil
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for t := tar.NewReader(f.file); ; { // skips unread content
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return errNoArchive
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errNoArchive, err)
		}
		if name := path.Clean(h.Name); name == ocispec.ImageLayoutFile || name == "manifest.json" {
			return nil
		}
	}
}

// archiveFile reads the decompressed content of a file.
type archiveFile struct {
	compression.DecompressReadCloser
	file *os.File
}

func openArchive(name string) (*archiveFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errNoArchive, err, f.Close())
	}
	plain, err := compression.DecompressStream(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoArchive, err), f.Close())
	}
	return &archiveFile{plain, f}, nil
}

// Close closes the decompressor and the file.
func (a *archiveFile) Close() error {
	return errors.Join(a.DecompressReadCloser.Close(), a.file.Close())
}

package registry

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	imagespkg "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Limits of a pulled image besides its size.
const (
	manifestMost = 4 << 20 // bytes of manifests and configurations
	layersMost   = 128
	entriesMost  = 1_000_000 // files, directories and links, each an inode of the host
)

const (
	errSize        = refusal("it is larger than this worker allows for an image")
	errLayers      = refusal("it has more layers or files than this worker allows for an image")
	errForeignURLs = refusal("it has a layer with external urls, which is not allowed")
)

// size counts the data of a pull: the declared size before the fetch, and the actual size before
// unpacking. Layers are handled concurrently.
type size struct {
	store content.Provider
	most  int64 // for compressed bytes, and for unpacked ones

	mu              sync.Mutex
	layers, entries int
	declared        int64
	unpacked        int64
}

// wrap returns h with everything counted.
func (s *size) wrap(h imagespkg.Handler) imagespkg.Handler {
	return imagespkg.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if err := s.declare(desc); err != nil {
			return nil, err
		}
		children, err := h.Handle(ctx, desc)
		if err == nil && imagespkg.IsLayerType(desc.MediaType) {
			err = s.measure(ctx, desc)
		}
		return children, err
	})
}

func (s *size) declare(desc ocispec.Descriptor) error {
	if len(desc.URLs) > 0 {
		return errForeignURLs
	}
	layer := imagespkg.IsLayerType(desc.MediaType)
	if desc.Size < 0 || desc.Size > s.most || !layer && desc.Size > manifestMost {
		return errSize
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if layer {
		s.layers++
	}
	s.declared += desc.Size
	switch {
	case s.layers > layersMost:
		return errLayers
	case s.declared > s.most:
		return errSize
	}
	return nil
}

// measure reads a fetched layer in the same way as unpacking.
func (s *size) measure(ctx context.Context, desc ocispec.Descriptor) error {
	blob, err := s.store.ReaderAt(ctx, desc)
	if err != nil {
		return fmt.Errorf("measure a layer: %w", err)
	}
	defer blob.Close()
	plain, err := compression.DecompressStream(content.NewReader(blob))
	if err != nil {
		return fmt.Errorf("measure a layer: %w", err)
	}
	defer plain.Close()
	return s.count(&io.LimitedReader{R: plain, N: s.most + 1})
}

// count adds up an uncompressed layer. A sparse file counts with its declared size, which exceeds
// its part of the archive.
func (s *size) count(stream *io.LimitedReader) error {
	archive := tar.NewReader(stream)
	for {
		h, err := archive.Next()
		if stream.N == 0 {
			return errSize
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("measure a layer: %w", err)
		}
		if err := s.entry(h.Size); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // also read data after the end
		return fmt.Errorf("measure a layer: %w", err)
	}
	if stream.N == 0 {
		return errSize
	}
	return nil
}

func (s *size) entry(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries++
	if s.entries > entriesMost {
		return errLayers
	}
	if size < 0 || size > s.most-s.unpacked {
		return errSize
	}
	s.unpacked += size
	return nil
}

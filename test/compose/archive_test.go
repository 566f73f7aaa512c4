package compose

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// descriptor is as in the OCI image specification.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
}

func (d descriptor) path() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

// asDocker converts an OCI archive to the format that every engine reads: engines before 25 do not
// support OCI layouts, and before 23 no zstd.
func asDocker(archive, name string, out io.Writer) error {
	raw := map[string][]byte{}
	if err := eachFile(archive, func(h *tar.Header, r io.Reader) (err error) {
		if h.Size < 1<<20 {
			raw[h.Name], err = io.ReadAll(r)
		}
		return err
	}); err != nil {
		return err
	}
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(raw["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		return fmt.Errorf("%s: index.json: %v, %d manifests", archive, err, len(index.Manifests))
	}
	if err := json.Unmarshal(raw[index.Manifests[0].path()], &manifest); err != nil {
		return fmt.Errorf("%s: the manifest: %w", archive, err)
	}
	w := tar.NewWriter(out)
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{"config.json", []string{name}, nil}
	layers := map[string]string{}
	for i, l := range manifest.Layers {
		layers[l.path()] = fmt.Sprintf("%d.tar", i)
		entry.Layers = append(entry.Layers, layers[l.path()])
	}
	list, err := json.Marshal([]any{entry})
	if err != nil {
		return err
	}
	if err := errors.Join(writeFile(w, "manifest.json", list), writeFile(w, "config.json", raw[manifest.Config.path()])); err != nil {
		return err
	}
	if err := eachFile(archive, func(h *tar.Header, r io.Reader) error {
		if to := layers[h.Name]; to != "" {
			return unpack(w, to, r)
		}
		return nil
	}); err != nil {
		return err
	}
	return w.Close()
}

func eachFile(archive string, f func(*tar.Header, io.Reader) error) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(h, r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
}

func writeFile(w *tar.Writer, name string, data []byte) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))})
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// unpack writes a layer without compression, after its size.
func unpack(w *tar.Writer, name string, packed io.Reader) error {
	z, err := zstd.NewReader(packed)
	if err != nil {
		return err
	}
	defer z.Close()
	plain, err := os.CreateTemp("", "layer-")
	if err != nil {
		return err
	}
	defer os.Remove(plain.Name())
	defer plain.Close()
	size, err := io.Copy(plain, z)
	if err != nil {
		return err
	}
	if _, err := plain.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err = io.Copy(w, plain)
	return err
}

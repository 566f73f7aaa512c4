package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// file is one of a layer: where it is in the image, and where it comes from.
type file struct{ target, source string }

// parseLayer reads TARGET=SOURCE,TARGET=SOURCE.
func parseLayer(text string) (files []file, err error) {
	for part := range strings.SplitSeq(text, ",") {
		target, source, ok := strings.Cut(part, "=")
		if !ok || source == "" || !path.IsAbs(target) || path.Clean(target) != target {
			return nil, fmt.Errorf("-layer: %q is not /PATH/IN/IMAGE=FILE", part)
		}
		files = append(files, file{strings.TrimPrefix(target, "/"), source})
	}
	return files, nil
}

// layer is a tar stream of files that belong to root, with the directories above them
// as they are in the layer below. Its errors are those of reading.
func layer(files []file, created time.Time) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		var err error
		for _, f := range files {
			err = errors.Join(err, add(tw, f, created))
		}
		w.CloseWithError(errors.Join(err, tw.Close()))
	}()
	return r
}

func add(tw *tar.Writer, f file, created time.Time) error {
	in, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.target, Mode: mode, Size: info.Size(), ModTime: created, Format: tar.FormatUSTAR}
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(tw, in, info.Size())
	return err
}

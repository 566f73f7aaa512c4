// Command mkimage packs a root file system tar, and files on top of it, into an OCI image archive; images/build and
// images/pack call it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/ociimage"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

// recipe is what an image is made of.
type recipe struct {
	img    ociimage.Image
	rootfs string
	layers [][]file // upon it, the lowest first
	out    string
}

func run(args []string) error {
	r, err := parse(args)
	if err != nil {
		return err
	}
	digest, err := r.make()
	if err != nil {
		return err
	}
	fmt.Println(r.img.Name, digest)
	return nil
}

func parse(args []string) (r recipe, err error) {
	flags := flag.NewFlagSet("mkimage", flag.ExitOnError)
	flags.StringVar(&r.img.Name, "name", "", "full image reference")
	config := flags.String("config", "", "file with the image configuration (OCI config object)")
	created := flags.String("created", "@0", "creation time, @SECONDS since 1970")
	flags.StringVar(&r.rootfs, "rootfs", "", "uncompressed tar of the root file system")
	flags.StringVar(&r.out, "o", "", "archive to write")
	labels := map[string]string{}
	flags.Func("label", "NAME=VALUE; may be repeated", func(text string) error {
		k, v, ok := strings.Cut(text, "=")
		if labels[k] = v; !ok || k == "" {
			return errors.New("it is not NAME=VALUE")
		}
		return nil
	})
	var layers []string
	flags.Func("layer", "files of one more layer, as /PATH/IN/IMAGE=FILE,…; may be repeated", func(text string) error {
		layers = append(layers, text)
		return nil
	})
	_ = flags.Parse(args) // ExitOnError
	if r.img.Name == "" || r.rootfs == "" || r.out == "" {
		return r, errors.New("-name, -rootfs and -o are required")
	}
	for _, text := range layers {
		files, err := parseLayer(text)
		if err != nil {
			return r, err
		}
		r.layers = append(r.layers, files)
	}
	seconds, err := strconv.ParseInt(strings.TrimPrefix(*created, "@"), 10, 64)
	if err != nil {
		return r, fmt.Errorf("-created: %w", err)
	}
	r.img.Created = time.Unix(seconds, 0)
	if *config != "" {
		if err := readConfig(*config, &r.img.Config); err != nil {
			return r, err
		}
	}
	if len(labels) > 0 {
		r.img.Config.Labels = labels
	}
	return r, nil
}

func readConfig(file string, into *ociimage.Config) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// make writes the image and returns its digest.
func (r *recipe) make() (digest string, err error) {
	in, err := os.Open(r.rootfs)
	if err != nil {
		return "", err
	}
	defer in.Close()
	layers := []io.Reader{in}
	for _, files := range r.layers {
		l := layer(files, r.img.Created)
		defer l.Close()
		layers = append(layers, l)
	}
	w, err := os.Create(r.out)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return ociimage.Write(w, r.img, filepath.Dir(r.out), layers...)
}

// Command mkimage packs a root file system tar into an OCI image archive; images/build calls it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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

func run(args []string) (err error) {
	flags := flag.NewFlagSet("mkimage", flag.ExitOnError)
	name := flags.String("name", "", "full image reference")
	config := flags.String("config", "", "file with the image configuration (OCI config object)")
	created := flags.String("created", "@0", "creation time, @SECONDS since 1970")
	rootfs := flags.String("rootfs", "", "uncompressed tar of the root file system")
	out := flags.String("o", "", "archive to write")
	_ = flags.Parse(args) // ExitOnError
	if *name == "" || *rootfs == "" || *out == "" {
		return errors.New("-name, -rootfs and -o are required")
	}
	seconds, err := strconv.ParseInt(strings.TrimPrefix(*created, "@"), 10, 64)
	if err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	img := ociimage.Image{Name: *name, Created: time.Unix(seconds, 0)}
	if *config != "" {
		data, err := os.ReadFile(*config)
		if err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&img.Config); err != nil {
			return fmt.Errorf("%s: %w", *config, err)
		}
	}

	in, err := os.Open(*rootfs)
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := os.Create(*out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	digest, err := ociimage.Write(w, img, in, filepath.Dir(*out))
	if err != nil {
		return err
	}
	fmt.Println(*name, digest)
	return nil
}

package dev

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/assay-run/assay/images"
	"github.com/assay-run/assay/internal/ociimage"
	"github.com/assay-run/assay/pkg/language"
)

// imageTime is the time in images, as in images/build: the same packages give the same image.
const imageTime = 1700000000

// needsImage reports whether the fleet must build its default image.
func (cfg FleetConfig) needsImage() bool {
	return cfg.Runtime != "noop" && len(cfg.ImageArchives) == 0 && cfg.ImageCache != ""
}

// DefaultImage is the image of jobs that name none.
const DefaultImage = "python"

// BuildImage returns the archive of a job image, python, tools or polyglot, in the directory dir. If it
// does not exist, it is built from the packages of this machine's distribution. That takes half a
// minute with a mirror nearby, and some minutes for polyglot. It requires root and mmdebstrap.
// Progress and errors are written to said.
func BuildImage(ctx context.Context, dir, name string, said io.Writer) (archive string, err error) {
	key, err := imageKey(name)
	if err != nil {
		return "", err
	}
	archive = filepath.Join(dir, name+"-"+key+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	l := lacks{on: thisMachine()}
	l.root("packages are installed into a directory as a system has them")
	l.image()
	if err := l.err(); err != nil {
		return "", err
	}
	lock, err := Acquire(dir)
	if err != nil {
		return "", fmt.Errorf("build image %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", fmt.Errorf("build image %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fmt.Fprintf(said, "building the image %s of jobs from this system's packages, once, into %s …\n", name, archive)
	made, err := buildImage(ctx, work, name)
	if err != nil {
		return "", fmt.Errorf("build image %s: %w", name, err)
	}
	older, _ := filepath.Glob(filepath.Join(dir, name+"-*.tar")) // an error means a bad pattern
	for _, file := range older {
		_ = os.Remove(file)
	}
	return archive, os.Rename(made, archive)
}

// imageKey is a hash of everything that determines the image.
func imageKey(name string) (string, error) {
	h := sha256.New()
	for _, part := range []string{"build", "languages", name} {
		err := fs.WalkDir(images.Recipes, part, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := images.Recipes.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("there is no recipe of an image %s: %w", name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// buildImage runs images/build in the directory work and packs the result.
func buildImage(ctx context.Context, work, name string) (archive string, err error) {
	if err := os.CopyFS(filepath.Join(work, "images"), images.Recipes); err != nil {
		return "", err
	}
	rootfs := filepath.Join(work, "rootfs.tar")
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(work, "images", "build"), "--rootfs", rootfs, name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The script and all its children; the script cleans up after itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return "", errors.Join(ctx.Err(), fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out.Bytes())))
	}
	return packImage(work, name, rootfs)
}

// packImage makes an archive of a root file system and of its description by images/build.
func packImage(work, name, rootfs string) (archive string, err error) {
	img := ociimage.Image{Name: "assay.local/" + name + ":latest", Created: time.Unix(imageTime, 0)}
	config, err := images.Recipes.ReadFile(name + "/config.json")
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(config, &img.Config); err != nil {
		return "", err
	}
	languages, err := os.ReadFile(rootfs + ".languages")
	if err != nil {
		return "", err
	}
	img.Config.Labels = map[string]string{language.Label: string(bytes.TrimSpace(languages))}
	in, err := os.Open(rootfs)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to, err := os.Create(filepath.Join(work, "image.tar"))
	if err != nil {
		return "", err
	}
	_, err = ociimage.Write(to, img, work, in)
	return to.Name(), errors.Join(err, to.Close())
}

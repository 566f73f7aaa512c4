package environment

import (
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits of a list of wheels.
const (
	wheelsMost   = 1000
	zipDirectory = 16 << 20 // bytes of a zip that are read to list its files
	metadataMost = 1 << 20
)

// wheelFile is a verified wheel in the worker's own copy.
type wheelFile struct {
	file          string // its file name
	path          string // of the copy
	bytes         int64
	name, version string // as spelled in its metadata
	sum           string // sha256 of the copy, in hexadecimal
	built         bool   // built here from source
}

// requirement returns the requirement that matches only this wheel.
func (w *wheelFile) requirement() string {
	return w.name + "==" + w.version + " --hash=sha256:" + w.sum
}

// record returns the wheel's entry in results. Wheels built here are in no index.
func (w *wheelFile) record() string {
	if w.built {
		return w.requirement() + " # built from source"
	}
	return w.requirement()
}

var wheelName = regexp.MustCompile(`^([A-Za-z0-9._]+)-[A-Za-z0-9._+!]+(-[0-9][A-Za-z0-9._]*)?(-[A-Za-z0-9._]+){3}\.whl$`)

// takeWheels copies the wheels in a directory of work, a sandbox's output, to the directory to, and
// verifies them. most limits their bytes.
func takeWheels(work *os.Root, dir, to string, most int64) (out []wheelFile, err error) {
	d, err := work.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // no requirement applies to this machine
	}
	if err != nil {
		return nil, fmt.Errorf("take wheels: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(wheelsMost + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("take wheels: %w", err)
	}
	if len(names) > wheelsMost {
		return nil, buildError("more than %d packages", wheelsMost)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, fmt.Errorf("take wheels: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		w, err := takeWheel(work, filepath.Join(dir, name), filepath.Join(to, name), most)
		if err != nil {
			return nil, err
		}
		most -= w.bytes
		out = append(out, w)
	}
	return out, nil
}

func takeWheel(work *os.Root, from, to string, most int64) (w wheelFile, err error) {
	w = wheelFile{file: filepath.Base(from), path: to}
	parts := wheelName.FindStringSubmatch(w.file)
	if parts == nil || len(w.file) > unix.NAME_MAX {
		return w, buildError("pip left %.200q, which is not the name of a wheel", w.file)
	}
	src, err := openPlain(work, from)
	if err != nil {
		return w, err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return w, fmt.Errorf("take a wheel: %w", err)
	}
	defer dst.Close()
	sum := sha256.New()
	if w.bytes, err = io.Copy(io.MultiWriter(dst, sum), io.LimitReader(src, most+1)); err != nil {
		return w, fmt.Errorf("take a wheel: %w", err)
	}
	if w.bytes > most {
		return w, buildError("the packages are larger than this worker allows for an environment")
	}
	w.sum = hex.EncodeToString(sum.Sum(nil))
	if w.name, w.version, err = wheelMetadata(dst, w.bytes); err != nil {
		return w, buildError("%s: %v", w.file, err)
	}
	if canonical(w.name) != canonical(parts[1]) {
		return w, buildError("%s declares the name and version %s", w.file, w.name)
	}
	return w, nil
}

// openPlain opens a regular file in a sandbox's output. It does not follow a link, or block on a
// pipe.
func openPlain(work *os.Root, name string) (*os.File, error) {
	bad := buildError("a package has /%.200s, which is not a file", name)
	info, err := work.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, bad
	}
	f, err := work.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the output of a build: %w", err)
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		_ = f.Close()
		return nil, bad
	}
	return f, nil
}

// canonical normalizes the name of a package for comparisons.
func canonical(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

var (
	separators = regexp.MustCompile(`[-_.]+`)
	plainName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?$`)
	plainVer   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+!-]{0,99}$`)
)

// wheelMetadata returns the name and version in a wheel. Its memory is limited by the zip
// directory's limit.
func wheelMetadata(r io.ReaderAt, size int64) (name, version string, err error) {
	bounded := &budget{r: r, left: zipDirectory}
	z, err := zip.NewReader(bounded, size)
	if err != nil {
		return "", "", fmt.Errorf("it is not a wheel: %w", err)
	}
	var found *zip.File
	for _, f := range z.File {
		dir, file, _ := strings.Cut(f.Name, "/")
		if !strings.HasSuffix(dir, ".dist-info") || file != "METADATA" {
			continue
		}
		if found != nil {
			return "", "", errors.New("it has its metadata twice")
		}
		found = f
	}
	if found == nil {
		return "", "", errors.New("it has no metadata")
	}
	bounded.left = zipDirectory
	f, err := found.Open()
	if err != nil {
		return "", "", fmt.Errorf("read its metadata: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, metadataMost))
	for lines.Scan() && lines.Text() != "" {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(field, "Name") && name == "":
			name = value
		case strings.EqualFold(field, "Version") && version == "":
			version = value
		}
	}
	if !plainName.MatchString(name) || !plainVer.MatchString(version) {
		return "", "", errors.New("its metadata has no plain name and version")
	}
	return name, version, nil
}

var errBudget = errors.New("its list of files is too long")

// budget returns an error after this many bytes.
type budget struct {
	r    io.ReaderAt
	left int64
}

func (b *budget) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errBudget
	}
	return b.r.ReadAt(p, at)
}

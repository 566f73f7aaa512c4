package containerd

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// TestBadImages checks that an unusable image is a result of the jobs that name it. It does not count against
// the worker, which would rest after a few failures of its own.
func TestBadImages(t *testing.T) {
	r, isolations := everywhere(t)
	data, err := os.ReadFile(testenv.Guest(t))
	if err != nil {
		t.Fatal(err)
	}
	static := layerOf(t, []entry{file("prog", 0o755, string(data))})
	config := func(edit func(*ocispec.Image), layers ...[]byte) []byte {
		c := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: goruntime.GOARCH}, RootFS: ocispec.RootFS{Type: "layers"}}
		for _, l := range layers {
			c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, ocispec.DescriptorEmptyJSON.Digest.Algorithm().FromBytes(l))
		}
		if edit != nil {
			edit(&c)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other := "arm64"
	if goruntime.GOARCH == other {
		other = "amd64"
	}
	noise := bytes.Repeat([]byte("noise"), 1000)
	torn := static[:len(static)/2]
	linked := layerOf(t, []entry{{Header: tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}}})
	for name, c := range map[string]struct {
		config []byte
		layer  []byte
	}{
		"static":      {config(nil, static), static},
		"nothing":     {config(nil, layerOf(t, nil)), layerOf(t, nil)},
		"platform":    {config(func(i *ocispec.Image) { i.Architecture = other }, static), static},
		"system":      {config(func(i *ocispec.Image) { i.OS = "windows" }, static), static},
		"garbage":     {[]byte("{"), static},
		"list":        {[]byte("[]"), static},
		"types":       {[]byte(`{"os": "linux", "architecture": "` + goruntime.GOARCH + `", "config": {"Env": "x"}, "rootfs": {"type": "layers", "diff_ids": 7}}`), static},
		"no layers":   {config(nil), static},
		"wrong layer": {config(nil, noise), static},
		"bad digest":  {config(func(i *ocispec.Image) { i.RootFS.DiffIDs[0] = "x" }, static), static},
		"noise":       {config(nil, noise), noise},
		"torn":        {config(nil, torn), torn},
		"link out":    {config(nil, linked), linked},
		"file at tmp": {config(nil, layerOf(t, []entry{file("tmp", 0o644, "")})), layerOf(t, []entry{file("tmp", 0o644, "")})},
		"environment": {config(func(i *ocispec.Image) { i.Config.Env = []string{"", "=", "A\x00B=c", "LD_PRELOAD=/x"} }, static), static},
		"variables":   {config(func(i *ocispec.Image) { i.Config.Env = []string{"A=" + strings.Repeat("x", 1<<20)} }, static), static},
		"directory":   {config(func(i *ocispec.Image) { i.Config.WorkingDir = "/a\x00b" }, static), static},
	} {
		image := "example.com/bad:" + string(bytes.ReplaceAll([]byte(name), []byte(" "), []byte("-")))
		stored(t, r, image, ocispec.Manifest{}, c.config, c.layer)
		usable := slices.Contains([]string{"static", "nothing", "platform", "system", "directory"}, name)
		for _, isolation := range isolations {
			rep, err := try(t, r, isolation, image, runtime.Attempt{Program: job.Program{Command: &job.Command{Argv: []string{"/prog"}}}}, nil)
			var field *job.FieldError
			switch {
			case usable && (err != nil || rep.Outcome != job.Failed):
				t.Errorf("%s, %s: %+v, %v, want it to run", isolation, name, rep, err)
			case !usable && (!errors.As(err, &field) || field.Field != "image" || strings.Contains(err.Error(), "containerd-mount")):
				t.Errorf("%s, %s: %+v, %v, want the image to be refused", isolation, name, rep, err)
			}
		}
	}
	stored(t, r, "example.com/bad:index", ocispec.Manifest{}, config(nil, static), static)
	indexed(t, r, "example.com/bad:index", ocispec.Platform{OS: "linux", Architecture: other})
	if _, err := r.images.Get(t.Context(), "example.com/bad:index"); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("an index without this platform: %v", err)
	}
	rep, err := try(t, r, isolations[0], testenv.Image, runtime.Attempt{Program: sh("echo well")}, nil)
	if err != nil || rep.Stdout.Text != "well\n" {
		t.Errorf("after all that: %+v, %v", rep, err)
	}
}

// TestImageWithoutPython checks that without an interpreter nothing of a solution has run, so its author is
// not blamed.
func TestImageWithoutPython(t *testing.T) {
	r, isolations := everywhere(t)
	data, err := os.ReadFile(testenv.Guest(t))
	if err != nil {
		t.Fatal(err)
	}
	static := layerOf(t, []entry{file("prog", 0o755, string(data))})
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: goruntime.GOARCH}, RootFS: ocispec.RootFS{Type: "layers"}}
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, ocispec.DescriptorEmptyJSON.Digest.Algorithm().FromBytes(static))
	c, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	const image = "example.com/without:python"
	stored(t, r, image, ocispec.Manifest{}, c, static)
	for _, isolation := range isolations {
		s, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: image, Isolation: isolation, Kind: "tests"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		program, err := s.Start(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Service: "solution", Plan: runtimetest.Plan(t, r.Host(), isolation, nil)})
		if err != nil {
			t.Fatal(err)
		}
		if conn := program.Conn(); conn != nil {
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: it said %d bytes", isolation, n)
			}
		}
		program.Stop()
		rep, err := program.Wait()
		if err != nil || !rep.Unbegun || rep.Outcome != job.Failed || !strings.Contains(rep.Message, "no python3") {
			t.Errorf("%s: %+v, %v", isolation, rep, err)
		}
	}
	rep, err := try(t, r, isolations[0], testenv.Image, runtime.Attempt{Program: sh("exit 127")}, nil)
	if err != nil || rep.Unbegun {
		t.Errorf("a program that ends with 127 itself: %+v, %v", rep, err)
	}
}

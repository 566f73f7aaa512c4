package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func TestImageName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"python":                 "assay.local/python:latest",
		"python:3.12":            "assay.local/python:3.12",
		"assay.local/python":     "assay.local/python:latest",
		"library/python":         "docker.io/library/python:latest",
		"ghcr.io/some/image:v1":  "ghcr.io/some/image:v1",
		"localhost:5000/x":       "localhost:5000/x:latest",
		"":                       "",
		"UPPER":                  "",
		"a b":                    "",
		"../../etc":              "",
		"python@sha256:0":        "",
		"assay.local/python\x00": "",
	} {
		got, err := imageName(name)
		if got != want || (want == "") != errors.Is(err, job.ErrInvalid) {
			t.Errorf("imageName(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestImageNamesAreThoseOfCeilings checks that a ceiling and a worker parse image names equally. Otherwise
// there would be a way around the ceiling.
func TestImageNamesAreThoseOfCeilings(t *testing.T) {
	t.Parallel()
	hosts := []string{"", "docker.io/", "index.docker.io/", "DOCKER.io/", "localhost/", "localhost:5000/", "ghcr.io/", "assay.local/", "library/", "a/", "A/", "10.0.0.1:80/", "x:1/"}
	parts := []string{"library/", "a/", "a.b/", "docker.io/", "assay.local/", "localhost/", ""}
	compared := 0
	for _, host := range hosts {
		for _, one := range parts {
			for _, two := range parts {
				for _, end := range []string{"python", "python:3", "a.b", "python@sha256:" + strings.Repeat("0", 64), "index.docker.io"} {
					name := host + one + two + end
					want, err := imageName(name)
					if err != nil {
						continue
					}
					compared++
					if got := policy.ImageName(name); got != want && got+":latest" != want {
						t.Errorf("%s: a ceiling reads %s, a worker %s", name, got, want)
					}
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d names were compared", compared)
	}
}

// Several runtimes share a namespace: the base snapshot is made once, and each
// has its own mount of it.
func TestImageIsPreparedOnce(t *testing.T) {
	a, b := newStore(t, nil), newStore(t, nil)
	one, err := a.Get(t.Context(), "python")
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	if one.Digest != two.Digest || one.Rootfs == two.Rootfs {
		t.Errorf("images %+v and %+v: want one digest, two mounts", one, two)
	}
	if err := os.WriteFile(filepath.Join(one.Rootfs, "probe"), nil, 0o644); err == nil {
		t.Error("the shared root file system is writable")
	}
	if again, err := a.Get(t.Context(), "python"); err != nil || again.Rootfs != one.Rootfs {
		t.Errorf("asked again: %+v, %v", again, err)
	}
}

// A registry that fails is not asked again by each of the jobs that name it.
func TestFailingRegistryIsAskedOnceInAWhile(t *testing.T) {
	var asked atomic.Int64
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer registry.Close()
	m := newStore(t, func(c *settings) { c.Registries = []string{registry.URL} })
	ref := strings.TrimPrefix(registry.URL, "http://") + "/no/such:1"
	for range 3 {
		if _, err := m.Get(t.Context(), ref); !errors.Is(err, runtime.ErrImage) {
			t.Fatalf("got %v, want ErrImage", err)
		}
	}
	first := asked.Load()
	m.failed("another", runtime.ErrImage)
	m.mu.Lock()
	if m.byName[ref].err == nil {
		t.Error("it is forgotten too early")
	}
	m.byName[ref] = entry{err: runtime.ErrImage} // a while has passed
	m.mu.Unlock()
	if _, err := m.Get(t.Context(), ref); !errors.Is(err, runtime.ErrImage) || asked.Load() != 2*first || first == 0 {
		t.Errorf("asked %d times, later %d times in all: %v", first, asked.Load(), err)
	}
	m.mu.Lock()
	m.byName["another"] = entry{err: runtime.ErrImage}
	m.mu.Unlock()
	m.failed(ref, runtime.ErrImage)
	if _, ok := m.byName["another"]; ok {
		t.Error("old failures are kept")
	}
}

// TestPullError checks that a wrong name is the job's mistake, and that an unavailable registry is not.
func TestPullError(t *testing.T) {
	const ref = "registry.example/a:1"
	dns := func(e net.DNSError) error {
		e.Name = "registry.example"
		return fmt.Errorf("do request: %w", &url.Error{Op: "Head", Err: &net.OpError{Op: "dial", Err: &e}})
	}
	for _, c := range []struct {
		err, want error
	}{
		{errdefs.ErrNotFound, job.ErrInvalid},
		{fmt.Errorf("pull: %w", errdefs.ErrUnauthenticated), job.ErrInvalid},
		{errdefs.ErrPermissionDenied, job.ErrInvalid},
		{dns(net.DNSError{IsNotFound: true}), job.ErrInvalid},
		{dns(net.DNSError{IsTimeout: true}), runtime.ErrImage},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, runtime.ErrImage},
		{context.DeadlineExceeded, runtime.ErrImage},
	} {
		err := pullError(ref, c.err)
		if !errors.Is(err, c.want) || errors.Is(err, job.ErrInvalid) && !strings.Contains(err.Error(), ref) {
			t.Errorf("%v: got %v, want %v", c.err, err, c.want)
		}
	}
	if err := pullError(ref, nil); err != nil {
		t.Errorf("no error: %v", err)
	}
}

func TestErrorsNameTheImageOnce(t *testing.T) {
	t.Parallel()
	const ref = "assay.local/x:1"
	missing := job.Invalid("image", "there is no image %s on this worker", ref)
	for want, err := range map[string]error{
		"image: there is no image assay.local/x:1 on this worker":                 missing,
		"image: there is no image assay.local/x:1 on this worker ":                fmt.Errorf("pull: %w", job.Invalid("image", "there is no image %s on this worker ", ref)),
		"image: assay.local/x:1: its layers are invalid":                          job.Invalid("image", "its layers are invalid"),
		"image assay.local/x:1: packages: are unknown":                            job.Invalid("packages", "are unknown"),
		"image assay.local/x:1: broken":                                           errors.New("broken"),
		"image assay.local/x:1: " + ErrCollected.Error() + ": " + missing.Error(): fmt.Errorf("%w: %w", ErrCollected, missing),
	} {
		got := named(ref, err)
		if got.Error() != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
		if errors.Is(err, job.ErrInvalid) != errors.Is(got, job.ErrInvalid) || errors.Is(err, ErrCollected) != errors.Is(got, ErrCollected) {
			t.Errorf("%v: %v is another kind of error", err, got)
		}
	}
}

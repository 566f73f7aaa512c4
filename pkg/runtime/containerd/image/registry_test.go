package image

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
)

// canary is a server of the host's that no registry may have the worker call.
func canary(t *testing.T) (address string, called *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	called = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			called.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), called
}

// TestHostileRegistries checks that a registry cannot choose the worker's connections or stored content. On
// 5ee7338 it could: a redirected blob, the realm of a token and a layer's foreign urls, with TLS or without,
// each had the worker connect to this canary on loopback.
func TestHostileRegistries(t *testing.T) {
	secret, called := canary(t)
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
	}
	realm := func(to string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+to+`",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	layer := func(seed string) []byte {
		return imagetest.Zipped(t, func(w io.Writer) { _, _ = io.WriteString(w, seed) })
	}
	bomb := imagetest.Zipped(t, func(w io.Writer) {
		a := tar.NewWriter(w)
		_ = a.WriteHeader(&tar.Header{Name: "zeros", Size: 32 << 20, Mode: 0o644})
		_, _ = a.Write(make([]byte, 32<<20))
		_ = a.Close()
	})
	cases := map[string]struct{ url, want string }{
		"blob redirected to a local server":      {imagetest.Serve(t, layer("1"), nil, redirect("http://"+secret+"/x")), "without TLS"},
		"blob redirected with TLS":               {imagetest.Serve(t, layer("2"), nil, redirect("https://"+secret+"/x")), "private address"},
		"blob redirected to a name of this host": {imagetest.Serve(t, layer("3"), nil, redirect("https://localhost:"+secret[strings.LastIndex(secret, ":")+1:])), "private address"},
		"blob redirected to the metadata":        {imagetest.Serve(t, layer("4"), nil, redirect("https://169.254.169.254/latest")), "private address"},
		"token from a local server":              {realm("http://" + secret + "/token"), "without TLS"},
		"token from a local server with TLS":     {realm("https://" + secret + "/token"), "private address"},
		"foreign layer that is not distributable": {imagetest.Serve(t, layer("7"), func(d *ocispec.Descriptor) {
			//lint:ignore SA1019 nobody should make such a layer any more, and an enemy may
			d.MediaType, d.URLs = ocispec.MediaTypeImageLayerNonDistributableGzip, []string{"https://" + secret + "/layer"}
		}, nil), "urls"},
		"foreign layer":           {imagetest.Serve(t, layer("5"), func(d *ocispec.Descriptor) { d.URLs = []string{"http://" + secret + "/layer"} }, nil), "urls"},
		"huge by its declaration": {imagetest.Serve(t, layer("6"), func(d *ocispec.Descriptor) { d.Size = 1 << 40 }, nil), "larger"},
		"huge when unpacked":      {imagetest.Serve(t, bomb, nil, nil), "larger"},
	}
	good := imagetest.Serve(t, imagetest.Zipped(t, func(w io.Writer) { // an image as it should be
		a := tar.NewWriter(w)
		_ = a.WriteHeader(&tar.Header{Name: "hello", Size: 5, Mode: 0o644})
		_, _ = io.WriteString(a, "hello")
		_ = a.Close()
	}), nil, nil)
	list := []string{good}
	for _, c := range cases {
		list = append(list, c.url)
	}
	m := newStore(t, func(c *settings) { c.Registries, c.store.Most = list, 16*job.MiB })
	for name, c := range cases {
		_, err := m.Get(t.Context(), strings.TrimPrefix(c.url, "http://")+"/a/b:1")
		if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error of the job's that says %q", name, err, c.want)
		}
	}
	if _, err := m.Get(t.Context(), strings.TrimPrefix(good, "http://")+"/a/b:1"); err != nil {
		t.Errorf("a good image: %v", err)
	}
	_, err := m.Get(t.Context(), secret+"/a/b:1")
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "--image-registries") || !strings.Contains(err.Error(), secret) {
		t.Errorf("a registry that is not listed: %v", err)
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d connections to where the registries sent the worker", n)
	}
}

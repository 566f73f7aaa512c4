package image

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/registry"
)

// shop is a registry that lets in who knows its password, if it has one.
type shop struct {
	url, ref string // of the only image
	below    string // of the API

	mu       sync.Mutex
	password string // of user
	blobs    map[string][]byte
	manifest []byte
	asked    int // for the meaning of the tag
	heard    []string
}

func newShop(t *testing.T, below string) *shop {
	t.Helper()
	s := &shop{below: below, blobs: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url, s.ref = server.URL, strings.TrimPrefix(server.URL, "http://")+"/team/app:1"
	return s
}

// sell makes the tag refer to an image with a file of this text.
func (s *shop) sell(t *testing.T, text string) {
	t.Helper()
	layer := tarOf(t, "text", text)
	sum := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	config := fmt.Appendf(nil, `{"architecture":%q,"os":"linux","rootfs":{"type":"layers","diff_ids":[%q]}}`, goruntime.GOARCH, sum(layer))
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest,
		"config": map[string]any{"mediaType": ocispec.MediaTypeImageConfig, "digest": sum(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": ocispec.MediaTypeImageLayer, "digest": sum(layer), "size": len(layer)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manifest = manifest
	for _, b := range [][]byte{layer, config, manifest} {
		s.blobs[sum(b)] = b
	}
}

// ServeHTTP implements the part of the registry protocol that a pull needs.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, password, _ := r.BasicAuth()
	s.heard = append(s.heard, user+":"+password)
	if s.password != "" && (user != "user" || password != s.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v2"+s.below+"/team/app/")
	what, name, _ := strings.Cut(path, "/")
	body := s.blobs[name]
	if what == "manifests" && name == "1" {
		s.asked++
		body = s.manifest
	}
	if !ok || body == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if what == "manifests" {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(body)))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// count returns how often the tag was asked for.
func (s *shop) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// textOf returns the text in the image that ref refers to.
func textOf(t *testing.T, m *Store, ref string) string {
	t.Helper()
	img, err := m.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(img.Rootfs, "text"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// forget has the next get ask containerd again, and a registry if that was asked so long ago.
func forget(m *Store, asked time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byName)
	for ref := range m.asked {
		m.asked[ref] = time.Now().Add(-asked)
	}
}

func writeCredentials(t *testing.T, path string, auths map[string]string) {
	t.Helper()
	c := map[string]any{}
	for host, password := range auths {
		c[host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte("user:" + password))}
	}
	data, err := json.Marshal(map[string]any{"auths": c})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCredentialsOfRegistries checks that a registry receives only its own credentials, that the file is read
// again after changes, and that jobs never see it. On 18664e0 there were no credentials.
func TestCredentialsOfRegistries(t *testing.T) {
	mine, other := newShop(t, ""), newShop(t, "")
	mine.sell(t, "mine")
	other.sell(t, "other")
	mine.password, other.password = "right", "other-secret"
	path := filepath.Join(t.TempDir(), "config.json")
	writeCredentials(t, path, map[string]string{mine.url: "wrong-secret"})
	m := newStore(t, func(c *settings) { c.Registries, c.Credentials = []string{mine.url, other.url}, path })
	if _, err := m.Get(t.Context(), mine.ref); !errors.Is(err, runtime.ErrImage) || !strings.Contains(err.Error(), "credentials") || strings.Contains(err.Error(), "secret") {
		t.Errorf("wrong credentials: %v", err)
	}
	forget(m, 0)
	writeCredentials(t, path, map[string]string{mine.url + "/v1/": "right", strings.TrimPrefix(other.url, "http://") + "/another/team": "other-secret"})
	if got := textOf(t, m, mine.ref); got != "mine" {
		t.Errorf("the image says %q", got)
	}
	if _, err := m.Get(t.Context(), other.ref); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("credentials of another path: %v", err)
	}
	for _, h := range append(mine.heard, other.heard...) {
		if strings.Contains(h, "other-secret") {
			t.Error("a registry was told what is not for it")
		}
	}
	for name, text := range map[string]string{"torn": "{", "gone": "", "helper": `{"credHelpers": {"x": "y"}}`, "noise": `{"auths": {"x": {"auth": "secret!"}}}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "gone" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		forget(m, 0)
		if _, err := m.Get(t.Context(), other.ref); !errors.Is(err, runtime.ErrImage) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := registry.Open(registry.Config{Credentials: path}); err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "secret!") {
			t.Errorf("%s: a worker started with it: %v", name, err)
		}
	}
}

// TestMirrorsOfRegistries checks that a mirror is asked first, with its own path and credentials. The
// registry serves missing images, and all images while the mirror is unavailable.
func TestMirrorsOfRegistries(t *testing.T) {
	origin, mirror, away := newShop(t, ""), newShop(t, "/hub"), newShop(t, "")
	origin.sell(t, "of the registry")
	mirror.password = "mirror"
	path := filepath.Join(t.TempDir(), "config.json")
	writeCredentials(t, path, map[string]string{mirror.url + "/hub": "mirror"})
	host := strings.TrimPrefix(origin.url, "http://")
	with := func(mirrors ...string) func(*settings) {
		return func(c *settings) {
			c.Registries, c.Credentials, c.store.Always = []string{origin.url + "/team"}, path, below(origin.url+"/team")
			for _, m := range mirrors {
				c.Mirrors = append(c.Mirrors, host+"="+m)
			}
		}
	}
	m := newStore(t, with("http://"+closedPort(t), mirror.url+"/hub", away.url))
	if got := textOf(t, m, origin.ref); got != "of the registry" {
		t.Errorf("an empty mirror: %q", got)
	}
	mirror.sell(t, "of the mirror")
	before := origin.count()
	forget(m, time.Hour)
	if got := textOf(t, m, origin.ref); got != "of the mirror" || origin.count() != before {
		t.Errorf("a mirror: %q, and the registry was asked %d times more", got, origin.count()-before)
	}
	for _, h := range append(origin.heard, away.heard...) {
		if strings.Contains(h, "mirror") {
			t.Error("another than the mirror was told its password")
		}
	}
	for _, bad := range []string{"docker.io", "=x.example", "ghcr.io=mirror.example", host + "=a b", host + "="} {
		var c settings
		with()(&c)
		c.Mirrors = []string{bad}
		if _, err := registry.Open(c.Config); err == nil || !strings.Contains(err.Error(), "image mirrors") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return strings.TrimPrefix(s.URL, "http://")
}

// TestPullPolicy checks that a moved tag is found at the operator's request and after a minute. The previous
// image is removed once it is unused.
func TestPullPolicy(t *testing.T) {
	for policy, moves := range map[string]bool{"if_not_present": false, "always": true} {
		s := newShop(t, "")
		s.sell(t, "first "+policy)
		m := newStore(t, func(c *settings) {
			from, err := ParseSources([]string{s.url + "?pull=" + policy})
			if err != nil {
				t.Fatal(err)
			}
			c.Registries, c.store.Always = from.Registries, from.Always
		})
		was := textOf(t, m, s.ref)
		img, err := m.Get(t.Context(), s.ref)
		if err != nil {
			t.Fatal(err)
		}
		chain := img.RootName()
		s.sell(t, "second")
		forget(m, pullFresh/2)
		if got := textOf(t, m, s.ref); got != was {
			t.Errorf("%s: %q half a minute later", policy, got)
		}
		asked := s.count()
		forget(m, pullFresh)
		if got := textOf(t, m, s.ref); (got == "second") != moves || (s.count() > asked) != moves {
			t.Errorf("%s: %q after a minute, asked %d times more", policy, got, s.count()-asked)
		}
		if _, err := m.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.mounted(chain) == nil != moves {
			t.Errorf("%s: what the tag meant before is kept: %v", policy, !moves)
		}
		s.mu.Lock()
		exact := strings.TrimSuffix(s.ref, ":1") + fmt.Sprintf("@sha256:%x", sha256.Sum256(s.manifest))
		s.mu.Unlock()
		textOf(t, m, exact)
		s.mu.Lock()
		s.blobs = nil
		s.mu.Unlock()
		forget(m, time.Hour)
		if got := textOf(t, m, exact); got != "second" {
			t.Errorf("%s: a digest means %q", policy, got)
		}
	}
}

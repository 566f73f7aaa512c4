package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
)

func TestArchiveIsImportedOnce(t *testing.T) {
	archive, err := filepath.Abs("../../../.cache/images/python.tar")
	if err != nil {
		t.Fatal(err)
	}
	namespace := testenv.Containerd(t).Namespace + "-import"
	cfg := func(c *Config) { c.Namespace, c.ImageArchives = namespace, []string{archive} }
	first := newRuntime(t, cfg)
	if rep := runOne(t, first, "echo imported"); rep.Stdout.Text != "imported\n" {
		t.Errorf("ran %+v", rep)
	}
	begin := time.Now()
	newRuntime(t, cfg)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("the second start took %v: it imports again", took)
	}
}

// TestSettingsOfImagesAreTried checks that a worker does not start with unusable settings of images, and
// names them.
func TestSettingsOfImagesAreTried(t *testing.T) {
	torn := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(torn, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, edit := range map[string]func(*Config){
		"image registries":  func(c *Config) { c.ImageRegistries = []string{"a b"} },
		"image mirrors":     func(c *Config) { c.ImageMirrors = []string{"docker.io"} },
		"image credentials": func(c *Config) { c.ImageCredentials = torn },
		"trusted images":    func(c *Config) { c.TrustedImages = []string{"python"} },
	} {
		cfg := testConfig(t)
		edit(&cfg)
		if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestMissingArchiveIsNamed(t *testing.T) {
	cfg := testConfig(t)
	cfg.ImageArchives = []string{"/no/such.tar"}
	if _, err := New(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("New = %v, want it to name what is missing", err)
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(table), instance(cfg.StateDir)) {
		t.Errorf("a runtime that did not start left a mount behind (%v)", err)
	}
}

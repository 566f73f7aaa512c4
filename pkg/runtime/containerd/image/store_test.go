package image

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	client "github.com/containerd/containerd/v2/client"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/runtime/containerd/registry"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// settings are a test's settings of a store.
type settings struct {
	registry.Config
	store Config
}

// newStore is a store of this test's own on the shared containerd.
func newStore(t *testing.T, edit func(*settings)) *Store {
	t.Helper()
	env := testenv.Containerd(t)
	c, err := client.New(env.Address, client.WithDefaultNamespace(env.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := settings{store: Config{Client: c, Dir: dir, Instance: filepath.Base(filepath.Dir(dir)), Most: DefaultMost, Space: 40 * DefaultMost}}
	if edit != nil {
		edit(&s)
	}
	if s.store.Registries, err = registry.Open(s.Config); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Check(); err != nil {
		t.Fatal(err)
	}
	m := New(s.store)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

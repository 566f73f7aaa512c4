package start

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// pageTime is the limit of a page, including builds and downloads; all examples together have the
// same.
const pageTime = 5 * time.Minute

func TestMain(m *testing.M) { testenv.Main(m) }

// archive returns the default image.
func archive(t *testing.T) string {
	t.Helper()
	file := filepath.Join(testenv.RepoRoot(t), ".cache", "images", "python.tar")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	return file
}

// python returns an interpreter with the requirements of the Python client.
func python(t *testing.T) string {
	t.Helper()
	for _, env := range []string{"sdk-check", "sdk"} { // of make check-sdk and make sdk
		file := filepath.Join(testenv.RepoRoot(t), ".cache", env, "bin", "python3")
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	t.Fatal("no environment for the Python client; run: make check-sdk")
	return ""
}

// fleet starts a fleet for examples, with access to and from servers of this machine, and returns
// its address. The end of the test stops it.
func fleet(t *testing.T) string {
	t.Helper()
	image := archive(t)
	f, err := dev.StartFleet(t.Context(), dev.FleetConfig{
		Dir: testenv.FleetDir(t, image), Listen: testenv.Address(t), BinDir: testenv.Programs(t), ImageArchives: []string{image},
		Env:    []string{"ASSAY_CPU=4", "ASSAY_EGRESS_PRIVATE=127.0.0.0/8:*"},
		Stderr: t.Output(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f.URL()
}

package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
)

// FleetDir returns a data directory for dev.StartFleet, as after a fleet's first start: with a new Postgres cluster,
// and a containerd that has imported the archives. It saves the ten seconds of CPU time of that start. The directory
// is removed when the test ends.
//
// It is a copy of a directory that the tests of all packages share. Image files are linked, because they are never
// written.
func FleetDir(t testing.TB, archive string) (dir string) {
	t.Helper()
	Needs(t, "a fleet, and root")
	root, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, ".cache", "testenv", "fleets")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if dir, err = os.MkdirTemp(home, "fleet-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // another test binary may be making the first one
	defer cancel()
	if err := (firstStart{filepath.Join(home, "first"), archive}).copyTo(ctx, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// firstStart is the directory of a fleet that was started once.
type firstStart struct{ dir, archive string }

// parts are the parts of it that are kept and copied.
var parts = []string{"postgres", "containerd"}

func (f firstStart) copyTo(ctx context.Context, dir string) error {
	lock, err := turn(ctx, f.dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	if err := f.make(ctx); err != nil {
		return err
	}
	for part, how := range map[string]string{"postgres": "-a", "containerd": "-al"} {
		if out, err := exec.CommandContext(ctx, "cp", how, filepath.Join(f.dir, part), dir).CombinedOutput(); err != nil {
			return fmt.Errorf("copy a fleet's first start: %w: %s", err, out)
		}
	}
	return ownDatabases(filepath.Join(dir, "containerd"))
}

// make starts a fleet unless that was already done with this archive.
func (f firstStart) make(ctx context.Context) error {
	info, err := os.Stat(f.archive)
	if err != nil {
		return fmt.Errorf("the default image is not built: %w; run: make image", err)
	}
	key, done := fmt.Sprintln(f.archive, info.Size(), info.ModTime().UnixNano()), filepath.Join(f.dir, "made")
	if have, err := os.ReadFile(done); err == nil && string(have) == key {
		return nil
	}
	if err := os.Remove(done); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, part := range parts {
		if err := os.RemoveAll(filepath.Join(f.dir, part)); err != nil {
			return err
		}
	}
	if err := f.start(ctx); err != nil {
		return err
	}
	return os.WriteFile(done, []byte(key), 0o644)
}

// start runs a fleet until it is ready. It keeps the fleet's containerd and an unused Postgres.
func (f firstStart) start(ctx context.Context) error {
	whole, err := os.MkdirTemp(f.dir, "start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(whole)
	bin := filepath.Join(whole, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := programs(ctx, bin, nil); err != nil {
		return err
	}
	fleet, err := dev.StartFleet(ctx, dev.FleetConfig{
		Dir: filepath.Join(whole, "fleet"), Listen: "127.0.0.1:0", BinDir: bin, ImageArchives: []string{f.archive},
		Stderr: io.Discard, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := fleet.Stop(ctx); err != nil {
		return err
	}
	for _, ephemeral := range []string{"state", "s", "containerd.log", "config.toml"} {
		if err := os.RemoveAll(filepath.Join(fleet.Dir(), "containerd", ephemeral)); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(fleet.Dir(), "containerd"), filepath.Join(f.dir, "containerd")); err != nil {
		return err
	}
	pg, err := dev.StartPostgres(ctx, dev.PostgresConfig{Dir: filepath.Join(f.dir, "postgres")})
	if err != nil {
		return err
	}
	return pg.Stop(ctx)
}

// ownDatabases gives a copied containerd separate copies of the files that it writes: its
// databases.
func ownDatabases(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "snapshots", e.IsDir() && e.Name() == "blobs":
			return filepath.SkipDir
		case !e.Type().IsRegular() || !strings.HasSuffix(path, ".db"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o644)
	})
}

// Package testenv provides the real components to tests: Postgres, NATS with JetStream, containerd
// with the default image.
//
// A package that uses it calls Main in its TestMain. Main stops everything that the tests started
// and fails the run if goroutines are left:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//
//	func TestStore(t *testing.T) {
//		dsn := testenv.Postgres(t) // an empty database of this test's own
//		…
//	}
//
// Postgres and containerd start once per test binary, on first use. Their directories are kept
// under .cache/testenv in the repository, so that a cluster is created and an image unpacked only
// once. Concurrent test binaries use separate directories. If a requirement is missing, the test
// fails and names the command to run. Only -short skips tests: see Needs.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/internal/cli/dev"
)

const (
	startTimeout = 2 * time.Minute // the first use creates a cluster or unpacks an image, possibly on a busy machine
	stopTimeout  = time.Minute
	maxSlots     = 64
)

// Main runs the tests of a package, stops the servers that they started, fails if goroutines are left, and exits.
func Main(m *testing.M, leaks ...goleak.Option) {
	env.mu.Lock()
	env.managed = true
	env.mu.Unlock()
	code := m.Run()
	if err := env.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	// After a failed test, leftovers are a consequence and only hide the reason.
	if code == 0 {
		if err := goleak.Find(leaks...); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// env holds everything that this test binary has started.
var env environment

type environment struct {
	mu         sync.Mutex
	managed    bool // TestMain will stop it
	postgres   *dev.Postgres
	databases  int
	ports      []int // not used by any test yet; nil: none were requested
	containerd *Env
	stops      []func(context.Context) error // run in reverse
}

func (e *environment) stop() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	for i := len(e.stops) - 1; i >= 0; i-- {
		errs = append(errs, e.stops[i](ctx))
	}
	e.stops, e.postgres, e.containerd, e.ports = nil, nil, nil, nil
	return errors.Join(errs...)
}

// use locks the environment for a test that needs a shared component.
func (e *environment) use(t testing.TB) (unlock func()) {
	t.Helper()
	e.mu.Lock()
	if !e.managed {
		e.mu.Unlock()
		t.Fatal("testenv: nothing would stop the components; add: func TestMain(m *testing.M) { testenv.Main(m) }")
	}
	return e.mu.Unlock
}

// slot takes a directory of this kind that no other test binary uses, and keeps it until the
// environment stops.
func (e *environment) slot(kind string) (string, error) {
	root, err := repoRoot()
	if err != nil {
		return "", err
	}
	return e.slotIn(filepath.Join(root, ".cache", "testenv", kind))
}

// slotIn takes a directory below another one.
func (e *environment) slotIn(all string) (string, error) {
	for i := range maxSlots {
		dir := filepath.Join(all, strconv.Itoa(i))
		lock, err := dev.Acquire(dir)
		if errors.Is(err, dev.ErrLocked) {
			continue
		}
		if err != nil {
			return "", err
		}
		e.stops = append(e.stops, func(context.Context) error { return lock.Release() })
		return dir, nil
	}
	return "", fmt.Errorf("all %d directories in %s are in use", maxSlots, all)
}

// startContext limits the time of a start. It is not the test's context: the component outlives the
// first test.
func startContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), startTimeout)
}

// RepoRoot returns the top directory of this repository.
func RepoRoot(t testing.TB) string {
	t.Helper()
	root, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// repoRoot searches upwards from the working directory, which `go test` sets to the directory of
// the package.
func repoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("testenv: the tests must run inside the repository")
		}
		dir = parent
	}
}

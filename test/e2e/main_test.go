package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
)

// leaseTTL is the fleet's lease, short so that a dead worker is detected soon.
const leaseTTL = 6 * time.Second

// faults is the failure rate of the store, the queue and the object store in some tests: see
// package fault.
var faults = flag.Float64("faults", 0.03, "share of the operations on store, queue and object store that fail where stories are told over faults")

func TestMain(m *testing.M) {
	// Each test has a fleet of its own, and mostly waits for it; -parallel overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

// fleet is the common fleet of a test's scenarios.
type fleet struct {
	*dev.Fleet
	api    *client.Client
	bin    string
	log    string // of the worker
	faulty bool   // whether its store, queue and object store fail by design
}

// start builds the programs, starts a fleet of them and stops it when the test ends. Leftovers fail
// the test. env is added to the programs' environment.
func start(t *testing.T, env ...string) *fleet {
	t.Helper()
	return startPrograms(t, testenv.Programs(t), env...)
}

// startFaulty starts a fleet whose programs sometimes fail by design.
func startFaulty(t *testing.T) *fleet {
	t.Helper()
	f := startPrograms(t, testenv.Programs(t, "faults"), fmt.Sprintf("ASSAY_FAULTS=%g", *faults))
	f.faulty = true
	return f
}

func startPrograms(t *testing.T, bin string, env ...string) *fleet {
	t.Helper()
	root := testenv.RepoRoot(t)
	archive := filepath.Join(root, ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	dir := testenv.FleetDir(t, archive)
	f, err := dev.StartFleet(t.Context(), dev.FleetConfig{
		Dir: dir, Listen: testenv.Address(t), BinDir: bin, ImageArchives: []string{archive},
		Env:    append([]string{"ASSAY_LEASE_TTL=" + leaseTTL.String(), "ASSAY_CPU=4", "ASSAY_EGRESS_PRIVATE=127.0.0.0/8:*", "ASSAY_IMAGE_REGISTRIES=http://127.0.0.1:1", "ASSAY_RUNTIMES=gvisor=" + testenv.Runsc(t)}, env...),
		Stderr: t.Output(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	running := &fleet{Fleet: f, bin: bin, log: filepath.Join(dir, "worker.log")}
	t.Cleanup(func() { running.stop(t) })
	if running.api, err = client.New(f.URL()); err != nil {
		t.Fatal(err)
	}
	return running
}

// stop stops the fleet and looks for its leftovers.
func (f *fleet) stop(t *testing.T) {
	traces := f.traces(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
	for _, what := range traces.left(t) {
		t.Errorf("left behind: %s", what)
	}
	if f.faulty && !f.said(t, "faults will be injected") {
		t.Errorf("no program fails by design; is the tag faults not known any more?")
	}
	if f.faulty && !f.said(t, "fault injected") {
		t.Errorf("nothing failed by design")
	}
	if t.Failed() {
		log, err := os.ReadFile(f.log)
		t.Logf("%s\n%s%v", f.log, log, errors.Join(err))
	}
}

// said reports whether a program's log has these words.
func (f *fleet) said(t *testing.T, words string) bool {
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(f.log), "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(logs, func(name string) bool {
		log, err := os.ReadFile(name)
		return err == nil && bytes.Contains(log, []byte(words))
	})
}

// eventually fails the test unless ok is true within a generous time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(fmt.Errorf("not within a minute: %s", what))
		}
	}
}

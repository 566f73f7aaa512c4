package conformance

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
)

var (
	all  = flag.Bool("conformance.all", false, "run every cell of the table, at every level")
	turn = flag.Int64("conformance.turn", time.Now().Unix()/3600, "which cells to run, if not all")
)

// share: one in this many cells runs in make test.
const share = 24

func TestMain(m *testing.M) { testenv.Main(m) }

// fleet is the fleet that runs all cells.
type fleet struct {
	api  *client.Client
	page string // of a server on this host
	dir  string // of its data
}

// start builds the programs and starts a fleet of them, which the end of the test stops.
func start(t *testing.T) *fleet {
	t.Helper()
	root := testenv.RepoRoot(t)
	archive := filepath.Join(root, ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	dir := testenv.FleetDir(t, archive)
	running, err := dev.StartFleet(t.Context(), dev.FleetConfig{
		Dir: dir, Listen: testenv.Address(t), BinDir: testenv.Programs(t), ImageArchives: []string{archive},
		Env:    []string{"ASSAY_CPU=4", "ASSAY_EGRESS_PRIVATE=127.0.0.0/8:*", "ASSAY_RUNTIMES=gvisor=" + testenv.Runsc(t)},
		Stderr: t.Output(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := running.Stop(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			log, err := os.ReadFile(filepath.Join(dir, "worker.log"))
			t.Logf("worker.log (%v):\n%s", err, log[max(len(log)-20_000, 0):])
		}
	})
	f := &fleet{dir: dir}
	if f.api, err = client.New(running.URL()); err != nil {
		t.Fatal(err)
	}
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }))
	t.Cleanup(host.Close)
	f.page = host.Listener.Addr().String()
	return f
}

package cell_test

import (
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/runtime/cell"
	"github.com/assay-run/assay/pkg/runtime/containerd"
	"github.com/assay-run/assay/pkg/runtime/egress"
)

func init() { cell.OpenRuntime = openRuntime }

// openRuntime implements cell.OpenRuntime on the shared containerd.
func openRuntime(t testing.TB, with cell.Settings) (cell.Whole, *cell.Cells) {
	t.Helper()
	env := testenv.Containerd(t)
	r, err := containerd.New(t.Context(), containerd.Config{
		Address: env.Address, Namespace: env.Namespace, StateDir: filepath.Join(t.TempDir(), "state"),
		Guest: testenv.Guest(t), WorkerID: "test",
		Egress:   egress.Operator{Private: []string{"127.0.0.0/8:*"}}, // where the servers of tests are
		CellWarm: with.CellWarm, CellJobs: with.CellJobs, CellAge: with.CellAge, WarmIdle: with.WarmIdle,
		PreloadMemory: with.PreloadMemory, Index: with.Index, Environments: with.Environments,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, r.Cells()
}

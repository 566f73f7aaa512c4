package containerd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
)

func TestProbeCell(t *testing.T) {
	if err := ProbeCell(t.Context(), testenv.Guest(t)); err != nil {
		t.Errorf("on a host that runs cells: %v", err)
	}
	if err := ProbeCell(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "guest binary") {
		t.Errorf("without a guest: %v", err)
	}
	liar := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(liar, []byte("#!/bin/sh\necho guest: make namespaces: no space left on device >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ProbeCell(t.Context(), liar); err == nil || err.Error() != "make namespaces: no space left on device" {
		t.Errorf("where namespaces cannot be made: %v", err)
	}
}

// A host that cannot run cells says so, and does not offer them.
func TestHostOffersWhatItCanRun(t *testing.T) {
	r := newRuntime(t, nil)
	if h := r.Host(); !slices.Contains(h.Isolations, policy.Cell) || !slices.Contains(h.Isolations, policy.Task) || len(h.Missing) > 0 {
		t.Errorf("host = %+v", h)
	}
	r.cfg.Guest = "/dev/null"
	h := r.inspect(t.Context())
	if slices.Contains(h.Isolations, policy.Cell) || !slices.Contains(h.Isolations, policy.Task) ||
		len(h.Missing) != 1 || !strings.HasPrefix(h.Missing[0], "isolation cell: ") {
		t.Errorf("host = %+v", h)
	}
}

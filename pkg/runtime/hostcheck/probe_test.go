package hostcheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
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

package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden compares text with a file below the package's directory, or writes the file.
func Golden(t *testing.T, file, text string, write bool) {
	t.Helper()
	if write {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	want, got := strings.Split(string(raw), "\n"), strings.Split(text, "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s differs from line %d on: has %q, want %q; read the new text, and write it with -update",
				file, i+1, want[min(i, len(want)-1)], got[min(i, len(got)-1)])
		}
	}
}

package environment

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

// TestEnvironmentsAreTrimmed checks that the least recently used entries are forgotten first, down to half of
// them.
func TestEnvironmentsAreTrimmed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, bytes int64, used time.Duration) {
		t.Helper()
		raw, err := json.Marshal(lockfile{Bytes: bytes, Tree: "sha"})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name, "lock.json")
		if err := os.MkdirAll(filepath.Join(dir, name, "layer"), 0o755); err != nil {
			t.Fatal(err)
		}
		if bytes < 0 {
			return
		}
		when := time.Now().Add(-used)
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	put("old", 60, time.Hour)
	put("new", 60, time.Minute)
	put("half", -1, 0)
	// Named by their earlier description.
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "told"), 0o755), os.WriteFile(filepath.Join(dir, "told", "lock.json"), []byte(`{"packages":["a==1"],"bytes":1}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Store{cfg: Config{Dir: dir}}
	left := func() (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			names = append(names, d.Name())
		}
		return names
	}
	for _, c := range []struct {
		most int64
		want []string
	}{{120, []string{"lock", "new", "old"}}, {100, []string{"lock", "new"}}, {10, []string{"lock"}}} {
		if err := s.trim(job.Size(c.most)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, left()); d != "" {
			t.Errorf("at most %d (-want +got):\n%s", c.most, d)
		}
	}
	for i := range storeMost {
		put(fmt.Sprintf("e%04d", i), 0, time.Duration(storeMost-i)*time.Minute)
	}
	if err := s.trim(1 << 40); err != nil {
		t.Fatal(err)
	}
	if names := left(); len(names) != storeMost/2+1 || names[0] != fmt.Sprintf("e%04d", storeMost/2) {
		t.Errorf("%d are left, from %s on", len(names), names[0])
	}
}

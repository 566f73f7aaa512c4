package e2e

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// fill makes files with long names in /workspace.
const fill = `
import os
for i in range(%d):
    open("/workspace/%%05d" %% i + "%s", "w").close()
`

// TestCollectingIsBounded runs jobs that leave as much work as artifacts can cause. Each ends soon,
// and the object store has the artifacts of the record.
func TestCollectingIsBounded(t *testing.T) {
	f := start(t)
	stars := make([]string, 32)
	for i := range stars {
		stars[i] = fmt.Sprintf("/workspace/**/*a*a*a*a*a*a*a*a*b%d/**/x", i)
	}
	words := make([]string, 32)
	for i := range words {
		words[i] = "/**/" + strings.Repeat("[!b]*", 100) + fmt.Sprint(i)
	}
	for _, level := range []string{"cell", "task", "gvisor"} {
		for name, c := range map[string]struct {
			code     string
			paths    []string
			feedback string
		}{
			"globs of directories": {fmt.Sprintf(fill, 20_000, strings.Repeat("a", 100)), stars, ""},
			"globs of names":       {fmt.Sprintf(fill, 20_000, strings.Repeat("a", 240)), words, ""},
			"files":                {fmt.Sprintf(fill, 10_000, strings.Repeat("<", 200)), []string{"/workspace/*"}, "refused"},
		} {
			t.Run(level+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				began := time.Now()
				r, err := f.api.Run(t.Context(), spec(t, python(c.code), level, limits{
					"wall": "60s", "cpu_time": "60s", "memory": "512Mi", "disk": "256Mi", "files": 30_000,
					"artifacts": limits{"paths": c.paths, "max_files": 10_000},
				}, ""))
				if err != nil || r.Outcome != job.Succeeded {
					t.Fatalf("%.500v, %v", r, err)
				}
				t.Logf("it took %v, %.0f ms of them to collect %d artifacts", time.Since(began), r.Timings.CollectMS, len(r.Artifacts))
				if r.Timings.CollectMS > 30_000 || time.Since(began) > 90*time.Second {
					t.Errorf("it took %v, %.0f ms of them to collect", time.Since(began), r.Timings.CollectMS)
				}
				if !strings.Contains(strings.Join(r.Feedback, "\n"), c.feedback) {
					t.Errorf("feedback %q, want %q", r.Feedback, c.feedback)
				}
				objects := 0
				_ = filepath.WalkDir(filepath.Join(filepath.Dir(f.log), "objects"), func(path string, d fs.DirEntry, _ error) error {
					if d != nil && !d.IsDir() && strings.Contains(path, string(r.ID)) {
						objects++
					}
					return nil
				})
				if objects != len(r.Artifacts) || c.feedback != "" && objects == 0 {
					t.Errorf("%d objects, and the record names %d", objects, len(r.Artifacts))
				}
			})
		}
	}
}

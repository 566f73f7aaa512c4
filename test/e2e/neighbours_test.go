package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// `make neighbours` has more of both.
var (
	neighbourJobs     = flag.Int("neighbours.jobs", 60, "innocent jobs beside the hostile corpus")
	neighbourPrograms = flag.Int("neighbours.programs", 20, "programs of the hostile corpus that run in a loop beside them")
)

// TestNeighbours runs innocent jobs of every kind beside programs of the hostile
// corpus, in a loop, at one worker and for one tenant: so they share a cell. Every
// outcome is right, every job ran in one attempt, and the worker never rests.
func TestNeighbours(t *testing.T) {
	f := start(t)
	f.unfailing = true
	for _, level := range []string{"cell", "task"} {
		t.Run(level, func(t *testing.T) { besideCorpus(t, f, level) })
	}
	for _, rests := range []string{"nothing works here", "in quarantine"} {
		if f.said(t, rests) {
			t.Errorf("a program says %q", rests)
		}
	}
}

func besideCorpus(t *testing.T, f *fleet, level string) {
	ctx, stop := context.WithCancel(t.Context())
	var attackers, victims sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	corpus := hostileSpecs(t, level)
	for lane := range 2 {
		attackers.Go(func() {
			for i := lane; ctx.Err() == nil; i += 2 {
				r, err := f.api.Run(ctx, corpus[i%len(corpus)])
				if ctx.Err() == nil && (err != nil || r.Outcome == job.Lost || len(r.Attempts) != 1) {
					t.Errorf("hostile program %d: %+v, %v", i%len(corpus), r, err)
				}
			}
		})
	}
	const right = "def f(x): return x * 2\nif __name__ == '__main__': print(f(int(input())))"
	innocent := []struct {
		p    job.Program
		want job.Outcome
	}{
		{python("print(6 * 7)"), job.Succeeded}, {python("1 / 0"), job.Exception}, {shell("echo hello; exit 3"), job.Failed},
		{graded(right), job.Succeeded}, {graded("def f(x): return x"), job.Failed},
	}
	for lane := range 3 {
		victims.Go(func() {
			for i := lane; i < *neighbourJobs; i += 3 {
				c := innocent[i%len(innocent)]
				r, err := f.api.Run(t.Context(), spec(t, c.p, level, limits{"wall": "60s"}, ""))
				if err != nil || r.Outcome != c.want || len(r.Attempts) != 1 {
					t.Errorf("innocent job %d: %+v, %v, want %s in one attempt", i, r, err, c.want)
				}
			}
		})
	}
	victims.Wait()
}

// hostileSpecs are jobs that run python programs of the corpus, those that attack
// verdicts first.
func hostileSpecs(t *testing.T, level string) []job.Spec {
	dir := filepath.Join(testenv.RepoRoot(t), "test", "hostile")
	var files []string
	for _, pattern := range []string{"verdicts/*.py", "[a-u]*/*.py", "v[f-z]*/*.py", "[w-z]*/*.py"} {
		found, err := filepath.Glob(filepath.Join(dir, "programs", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	prelude, err := os.ReadFile(filepath.Join(dir, "hostile.py"))
	if err != nil || len(files) == 0 {
		t.Fatal(fmt.Errorf("no corpus: %w", err))
	}
	text := string(prelude)
	var specs []job.Spec
	for _, name := range files[:min(len(files), *neighbourPrograms)] {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s := spec(t, job.Program{Python: &job.Python{Code: strings.ToValidUTF8(string(code), "")}}, level,
			limits{"wall": "5s", "cpu_time": "5s", "memory": "128Mi", "disk": "16Mi", "processes": 32}, "")
		s.Files = map[string]job.File{"/workspace/hostile.py": {Text: &text}}
		specs = append(specs, s)
	}
	return specs
}

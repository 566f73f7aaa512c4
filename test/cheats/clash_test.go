package cheats

import (
	"path"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/worker/grade"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/runtime"
)

// A checker whose own files clash with its messages or its case is at fault: it gets a verdict, and
// is not an infrastructure failure.
func TestCheckersWhoseFilesClash(t *testing.T) {
	f := newFleet(t, isolations[0])
	for _, name := range []string{"feedback", "feedback/judgemessage.txt", "feedback/judgemessage.txt/x", "feedback/score.txt"} {
		code := &job.Code{Language: "python", Main: "main.py", Files: map[string]string{"main.py": "import sys\nsys.exit(43)", name: "1"}}
		tests := judgedBy("print(1)", &job.Tests{Checker: &job.Checker{Code: code}}, "question")
		if err := (&job.Spec{Program: job.Program{Tests: tests}}).Validate(); err == nil {
			t.Errorf("%s: it is not refused by name", name)
		}
		built := builtOf(t, code)
		built.Files = nil
		for file, text := range code.Files {
			built.Files = append(built.Files, runtime.File{Path: path.Join(language.Dir, file), Data: []byte(text)})
		}
		rep, err := grade.Run(t.Context(), grade.Config{Tests: tests, Checker: built, Acquire: f.acquire,
			Attempt: runtime.Attempt{Job: job.NewID(), Lease: 1, Plan: f.plan(t, limits), Deadline: time.Now().Add(time.Minute)}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rep.Tests.Passed != 0 {
			t.Errorf("%s: passed", name)
		}
	}
}

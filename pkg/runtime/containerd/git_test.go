package containerd

import (
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// A repository and a patch for it are the usual inputs of a job that mends code.
func TestDefaultImageHasGitAndPatch(t *testing.T) {
	r, isolations := everywhere(t)
	for _, isolation := range isolations {
		rep, err := try(t, r, isolation, testenv.Image, runtime.Attempt{Program: sh(
			"git init -q repo && cd repo",
			"git config user.name a && git config user.email a@example.com",
			"echo one >file && git add file && git commit -qm first",
			"echo two >file && git diff >../change && git checkout -q file",
			"patch -p1 <../change && git diff --stat && git apply -R ../change && cat file",
		)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "patching file file\n file | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\none\n"
		if rep.Outcome != job.Succeeded || rep.Stdout.Text != want {
			t.Errorf("%s: %s %s %q %q", isolation, rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text)
		}
	}
}

package show

import (
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Gist is the one line of a result that says most.
func Gist(r *job.Result) string {
	text := r.Stdout.Text
	switch {
	case r.Exception != nil:
		text = r.Exception.Type + ": " + r.Exception.Message
	case r.Message != "":
		text = r.Message
	case r.Tests != nil:
		text = fmt.Sprintf("%d of %d tests passed", r.Tests.Passed, r.Tests.Total)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return job.Clip(line, 80)
}

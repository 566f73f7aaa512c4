package show

import (
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Gist returns the most informative line of a result.
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

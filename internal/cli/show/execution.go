package show

import (
	"fmt"
	"io"

	"github.com/assay-run/assay/pkg/job"
)

// Execution prints the result of an execution in a session.
func Execution(e *job.Execute, stdout, stderr io.Writer) {
	to := map[string]io.Writer{"stdout": stdout, "stderr": stderr}
	for _, c := range e.Output {
		if w := to[c.Stream]; w != nil {
			fmt.Fprint(w, c.Text)
		}
	}
	if e.Value != nil {
		fmt.Fprintln(stdout, e.Value.Repr)
	}
	for _, d := range e.Display {
		if d.Table == nil {
			fmt.Fprintf(stdout, "[%s, %d bytes: --json has it]\n", d.MediaType, len(d.Base64)*3/4)
		}
	}
	if e.Outcome == job.TimedOut || e.Outcome == job.OutcomeCanceled || !e.Alive {
		fmt.Fprintf(stderr, "assay: %s: %s\n", e.Outcome, Plain(e.Message))
	}
}

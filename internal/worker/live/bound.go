package live

import "github.com/assay-run/assay/pkg/job"

// mostOutput is the most bytes of JSON for one stream of an execution, or for the merged order. It
// is a little more than the largest limit of a policy, which plain text does not exceed. The rest
// is dropped, because sessions have no record to store it.
const mostOutput = 17 << 20

// bound cuts an execution's output to the size of a response.
func bound(e *job.Execute) {
	size := 0
	for _, c := range e.Output {
		size += job.EncodedSize(c.Text)
	}
	if size > 2*mostOutput {
		e.Output = nil // the streams themselves remain
	}
	for _, o := range []*job.Output{&e.Stdout, &e.Stderr} {
		if job.EncodedSize(o.Text) > mostOutput {
			o.Text, o.Truncated = job.Edges(o.Text, mostOutput/2, "left out: answers of sessions are bounded"), true
		}
	}
}

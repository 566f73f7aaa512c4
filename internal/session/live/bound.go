package live

import "github.com/assay-run/assay/pkg/job"

// mostOutput is what a stream of an execution, or what shows the order of both, takes in an
// answer at most, in bytes of JSON: a little more than the largest limit of a policy,
// which plain text does not exceed. There is nothing to keep the rest in: a session has
// no record.
const mostOutput = 17 << 20

// bound cuts what an execution wrote to what an answer carries.
func bound(e *job.Execute) {
	size := 0
	for _, c := range e.Output {
		size += job.EncodedSize(c.Text)
	}
	if size > 2*mostOutput {
		e.Output = nil // the streams themselves are there
	}
	for _, o := range []*job.Output{&e.Stdout, &e.Stderr} {
		if job.EncodedSize(o.Text) > mostOutput {
			o.Text, o.Truncated = job.Edges(o.Text, mostOutput/2, "left out: answers of sessions are bounded"), true
		}
	}
}

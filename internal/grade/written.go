package grade

import (
	"io"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/capture"
)

// written collects what the solution wrote in all of its runs, one after another, within
// the limits of the policy.
type written struct{ stdout, stderr stream }

type stream struct {
	kept  *capture.Buffer
	bytes int64 // of all runs
}

func newWritten(p *policy.Policy) written {
	return written{stream{kept: capture.New(p.Stdout.Limit, nil)}, stream{kept: capture.New(p.Stderr.Limit, nil)}}
}

func (w *written) add(r *runtime.Report) {
	w.stdout.add(r.Stdout)
	w.stderr.add(r.Stderr)
}

// add adds the output of one run. If it was cut, the marker in its middle
// does not survive: the stream keeps its head and its tail.
func (s *stream) add(o job.Output) {
	before := s.kept.Total()
	if o.Spill != nil {
		_, _ = io.Copy(s.kept, o.Spill.Exact()) // neither side fails
		_ = o.Spill.Close()
	} else {
		_, _ = s.kept.Write(o.Exact())
	}
	s.bytes += o.Bytes
	if o.Truncated {
		s.kept.Skip(o.Bytes - (s.kept.Total() - before))
	}
}

func (s *stream) output() job.Output {
	o := s.kept.Output()
	o.Bytes = s.bytes
	return o
}

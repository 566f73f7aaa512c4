package grade

import (
	"io"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/capture"
)

// written collects the solution's output in all of its runs in order, within the policy's limits.
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

// add adds the output of one run. If it was cut, its marker is dropped: the stream keeps its own
// head and tail.
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

package grade

import (
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/capture"
)

// written is what the solution wrote in all of its runs, one after another, of
// which the record keeps what the policy says.
type written struct{ stdout, stderr stream }

type stream struct {
	kept  *capture.Buffer
	bytes int64 // that were written
}

func newWritten(p *policy.Policy) written {
	return written{stream{kept: capture.New(p.Stdout.Limit, nil)}, stream{kept: capture.New(p.Stderr.Limit, nil)}}
}

func (w *written) add(r *runtime.Report) {
	w.stdout.add(r.Stdout)
	w.stderr.add(r.Stderr)
}

// add adds what one run wrote. Where that was cut, the marker that it has in the
// middle does not survive: what is kept is its head and its tail.
func (s *stream) add(o job.Output) {
	_, _ = s.kept.Write([]byte(o.Text))
	s.bytes += o.Bytes
	if o.Truncated {
		s.kept.Skip(o.Bytes - int64(len(o.Text)))
	}
}

func (s *stream) output() job.Output {
	o := s.kept.Output()
	o.Bytes = s.bytes
	return o
}

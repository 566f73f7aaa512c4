package grade

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/capture"
)

// TestWritten checks that the record has the output of all runs together, and at most the policy's limit.
func TestWritten(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Stdout.Limit = 1000
	run := func(text string, limit job.Size) *runtime.Report {
		b := capture.New(limit, nil)
		_, _ = b.Write([]byte(text))
		r := &runtime.Report{}
		r.Stdout = b.Output()
		return r
	}
	for name, c := range map[string]struct {
		runs  []*runtime.Report
		bytes int64
		cut   bool
		text  string
	}{
		"nothing":                  {nil, 0, false, ""},
		"one":                      {[]*runtime.Report{run("a\n", 1000)}, 2, false, "a\n"},
		"two":                      {[]*runtime.Report{run("a\n", 1000), run("", 1000), run("b\n", 1000)}, 4, false, "a\nb\n"},
		"one that was cut":         {[]*runtime.Report{run(strings.Repeat("x", 5000), 1000)}, 5000, true, "\n… 4000 bytes cut …\n"},
		"one that is to be cut":    {[]*runtime.Report{run(strings.Repeat("x", 5000), 9000)}, 5000, true, "\n… 4000 bytes cut …\n"},
		"many that are cut as one": {[]*runtime.Report{run(strings.Repeat("x", 600), 1000), run(strings.Repeat("y", 600), 1000)}, 1200, true, "\n… 200 bytes cut …\n"},
		"two that were cut":        {[]*runtime.Report{run(strings.Repeat("x", 2000), 1000), run(strings.Repeat("y", 2000), 1000)}, 4000, true, "x\n… 3000 bytes cut …\ny"},
	} {
		w := newWritten(&p)
		for _, r := range c.runs {
			w.add(r)
		}
		o := w.stdout.output()
		if o.Bytes != c.bytes || o.Truncated != c.cut || !strings.Contains(o.Text, c.text) || len(o.Text) > 1000+len(c.text) || strings.Count(o.Text, "cut …") > 1 {
			t.Errorf("%s: %d bytes, cut %v: %.600q", name, o.Bytes, o.Truncated, o.Text)
		}
	}
}

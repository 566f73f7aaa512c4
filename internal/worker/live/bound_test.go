package live

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestExecutesAreBounded(t *testing.T) {
	t.Parallel()
	control := strings.Repeat("\x01", 16<<20) // 96 MiB of JSON
	e := &job.Execute{
		Stdout: job.Output{Text: control, Bytes: 16 << 20}, Stderr: job.Output{Text: control, Bytes: 16 << 20},
		Output: []job.Chunk{{Stream: "stdout", Text: control}, {Stream: "stderr", Text: control}},
	}
	bound(e)
	raw, err := json.Marshal(e)
	if err != nil || len(raw) > 2*mostOutput+1000 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	for _, o := range []job.Output{e.Stdout, e.Stderr} {
		if !o.Truncated || o.Bytes != 16<<20 || !strings.Contains(o.Text, "left out") || !strings.HasPrefix(o.Text, "\x01") {
			t.Errorf("%d bytes left, truncated %v", len(o.Text), o.Truncated)
		}
	}
	text := strings.Repeat("x", 16<<20) // as much as a policy allows
	small := &job.Execute{Stdout: job.Output{Text: text}, Output: []job.Chunk{{Text: text}}}
	if bound(small); small.Stdout.Text != text || small.Stdout.Truncated || len(small.Output) != 1 {
		t.Errorf("what fits was cut: %d bytes, %d chunks", len(small.Stdout.Text), len(small.Output))
	}
}

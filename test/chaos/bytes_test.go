package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Jobs with the largest outputs that a policy allows, in characters that take six bytes each in
// JSON, beside small jobs. The small jobs are not delayed, no process uses the memory of a whole
// container, the records stay small, and all output is available.
func largestOutputs(t *testing.T) {
	const giants, small, size, most = 4, 50, 16 << 20, 400_000_000
	f := newFleet(t, shape{dispatchers: 2, workers: 2})
	slow := f.batch(giants, always(fmt.Sprintf("fill=%d", size)))
	quick := f.batch(small, always("output=small"))
	within(t, time.Minute, "the small ones are over", func() bool {
		return f.count("SELECT count(*) FROM results WHERE batch_id = $1", string(quick)) == small
	})
	f.dispatchers[1].kill()
	f.dispatchers[1].start(t)
	within(t, 5*time.Minute, "the large ones are over", func() bool {
		return f.count("SELECT count(*) FROM results WHERE batch_id = $1", string(slow)) == giants
	})
	f.check()
	if n := f.count("SELECT max(octet_length(body)) FROM results"); n > 1<<20 {
		t.Errorf("a record of %d bytes", n)
	}
	for raw, err := range f.api.Results(t.Context(), slow, true) {
		var r job.Result
		if err != nil || json.Unmarshal(raw, &r) != nil || r.Outcome != job.Succeeded {
			t.Fatalf("%.200s: %v", raw, err)
		}
		for _, stream := range []string{"stdout", "stderr"} {
			body, err := f.api.Output(t.Context(), r.ID, stream, -1)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, body)
			_ = body.Close()
			if err != nil || n != size {
				t.Errorf("%s has %d bytes, %v; want %d", stream, n, err, size)
			}
		}
	}
	for _, d := range f.dispatchers {
		if peak := d.peak(t); peak > most {
			t.Errorf("a dispatcher had %d MB, want at most %d", peak/1_000_000, most/1_000_000)
		}
	}
}

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// largeSteps is the number of steps with the largest outputs that a policy allows.
var largeSteps = flag.Int("large.steps", 1, "steps of the job with the largest outputs; 8 are 256 MiB")

// largeOutputs runs a job whose steps each write 16 MiB of control characters to both streams,
// which are 192 MiB of JSON, beside 50 small jobs. It is recorded, all of it can be read, and the
// small jobs do not wait for it.
func largeOutputs(t *testing.T, f *fleet) {
	const size, small = 16 << 20, 50
	giant := job.Spec{Policy: json.RawMessage(`{"wall":"2m","cpu_time":"2m","stdout":{"limit":"16Mi"},"stderr":{"limit":"16Mi"}}`), Program: job.Program{Command: &job.Command{}}}
	for i := range *largeSteps {
		giant.Program.Command.Steps = append(giant.Program.Command.Steps, job.Step{Name: fmt.Sprint("write-", i), Argv: []string{"python3", "-c",
			`import sys
for s in sys.stdout, sys.stderr:
    for i in range(16): s.write(chr(1) * (1 << 20))`}})
	}
	accepted, err := f.api.Submit(t.Context(), giant)
	if err != nil {
		t.Fatal(err)
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		began := time.Now()
		b, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{}, func(yield func(job.Spec) bool) {
			for range small {
				if !yield(job.Spec{Program: python("print(1)")}) {
					return
				}
			}
		})
		if err != nil {
			t.Error(err)
			return
		}
		done, err := f.api.Batch(t.Context(), b.ID, time.Minute)
		if err != nil || done.Outcomes[job.Succeeded] != small {
			t.Errorf("small ones beside it: %+v, %v", done, err)
		}
		t.Logf("%d small jobs beside it took %v", small, time.Since(began))
	})
	beside.Wait()
	r, err := f.api.Result(t.Context(), accepted.ID)
	if err != nil || r.Outcome != job.Succeeded || len(r.Steps) != *largeSteps {
		t.Fatalf("%s %s, %d steps, %v", r.Outcome, r.Message, len(r.Steps), err)
	}
	if raw, err := json.Marshal(r); err != nil || len(raw) > (1+2**largeSteps)<<18 {
		t.Errorf("a record of %d bytes, %v", len(raw), err)
	}
	for i, s := range r.Steps {
		for stream, o := range map[string]job.Output{"stdout": s.Stdout, "stderr": s.Stderr} {
			if o.Stored == nil || o.Bytes != size || o.Truncated {
				t.Errorf("%s of step %d: %d bytes, truncated %v, stored %+v", stream, i, o.Bytes, o.Truncated, o.Stored)
				continue
			}
			body, err := f.api.Output(t.Context(), r.ID, stream, i)
			if err != nil {
				t.Error(err)
				continue
			}
			n, err := io.Copy(io.Discard, body)
			_ = body.Close()
			if err != nil || n != size {
				t.Errorf("%s of step %d has %d bytes, %v; want %d", stream, i, n, err, size)
			}
		}
	}
}

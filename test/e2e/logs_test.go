package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// TestLogsLive reads a program's output while it runs, in the default isolation, with secrets
// masked.
func TestLogsLive(t *testing.T) {
	t.Parallel()
	f := start(t)
	const secret = "correct horse battery staple"
	if err := f.api.PutSecret(t.Context(), "word", secret); err != nil {
		t.Fatal(err)
	}
	const wait = "import os, sys, time\nprint('begun', os.environ['WORD'], flush=True)\nprint('oops', file=sys.stderr, flush=True)\n" +
		"while not os.path.exists('/tmp/never') and time.monotonic() - t < 20: time.sleep(0.1)\nprint('over')"
	j, err := f.api.Submit(t.Context(), job.Spec{
		Program: job.Program{Python: &job.Python{Code: "import time; t = time.monotonic()\n" + wait}},
		Policy:  []byte(`{"wall": "60s", "env": {"secrets": {"WORD": "word"}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	early, live := time.Duration(0), false
	began := time.Now()
	for e, err := range f.api.Logs(t.Context(), j.ID) {
		if err != nil {
			t.Fatal(err)
		}
		live = live || e.Live
		switch e.Kind {
		case "stdout":
			out.Write(e.Bytes())
		case "stderr":
			errs.Write(e.Bytes())
		case "end":
			if e.Outcome != job.Succeeded {
				t.Errorf("it ended %+v", e)
			}
		}
		if early == 0 && strings.Contains(out.String(), "begun") && strings.Contains(errs.String(), "oops") {
			early = time.Since(began)
		}
	}
	if took := time.Since(began); early == 0 || took-early < 10*time.Second || !live {
		t.Errorf("of %v, the first output came after %v (live %v)", took, early, live)
	}
	if strings.Contains(out.String(), secret) || !strings.HasSuffix(out.String(), "over\n") || strings.Count(out.String(), "begun") != 1 {
		t.Errorf("it wrote %q", out.String())
	}
	r, err := f.api.Result(t.Context(), j.ID)
	if err != nil || r.Stdout.Text != out.String() || r.Stderr.Text != errs.String() {
		t.Errorf("the record has %+v, %v; the logs had %q and %q", r, err, out.String(), errs.String())
	}
}

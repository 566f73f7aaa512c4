package dispatcher

import (
	"encoding/json"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func TestFits(t *testing.T) {
	t.Parallel()
	images := map[string]string{"python": "sha256:now", "changing": ""}
	good := func() job.Result { return job.Result{Outcome: job.Failed, ImageDigest: "sha256:now"} }
	for name, c := range map[string]struct {
		spec   string
		change func(*job.Result)
		want   bool
	}{
		"as it should be":      {`{"image":"python"}`, func(*job.Result) {}, true},
		"of the default image": {`{}`, func(*job.Result) {}, true},
		"another image since":  {`{}`, func(r *job.Result) { r.ImageDigest = "sha256:before" }, false},
		"no image known":       {`{"image":"other"}`, func(*job.Result) {}, false},
		"workers do not agree": {`{"image":"changing"}`, func(r *job.Result) { r.ImageDigest = "" }, false},
		"stored output":        {`{}`, func(r *job.Result) { r.Stderr.Stored = &job.StoredOutput{} }, false},
		"stored step": {`{}`, func(r *job.Result) {
			r.Steps = []job.StepResult{{Outcome: job.Succeeded, Stdout: job.Output{Stored: &job.StoredOutput{}}}}
		}, false},
		"files":                {`{}`, func(r *job.Result) { r.Artifacts = []job.Artifact{{}} }, false},
		"an answer itself":     {`{}`, func(r *job.Result) { r.Cached = true }, false},
		"out of time":          {`{}`, func(r *job.Result) { r.Outcome = job.TimedOut }, false},
		"a step out of time":   {`{}`, func(r *job.Result) { r.Steps = []job.StepResult{{Outcome: job.Succeeded}, {Outcome: job.TimedOut}} }, false},
		"a case out of memory": {`{}`, func(r *job.Result) { r.Tests = &job.TestsResult{Cases: []job.CaseResult{{Outcome: job.OutOfMemory}}} }, false},
		"cases that failed": {`{}`, func(r *job.Result) {
			r.Tests = &job.TestsResult{Cases: []job.CaseResult{{Outcome: job.Failed}, {Outcome: job.Exception}}}
		}, true},
		"it would be tried again":  {`{"retry":{"max_attempts":2,"on":["failed"]}}`, func(*job.Result) {}, false},
		"no attempt left for that": {`{"retry":{"max_attempts":1,"on":["failed"]}}`, func(*job.Result) {}, true},
		"retried for other ends":   {`{"retry":{"max_attempts":2,"on":["exception"]}}`, func(*job.Result) {}, true},
	} {
		r := good()
		c.change(&r)
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := fits(store.Repeat{Spec: []byte(c.spec), Record: raw}, images); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if fits(store.Repeat{Spec: []byte(`{}`), Record: []byte(`nonsense`)}, images) {
		t.Error("nonsense fits")
	}
}

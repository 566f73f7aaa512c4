package ui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// A screen of an output starts and ends with a whole character, from each position.
func TestScreensHaveWholeCharacters(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	text := strings.Repeat("€", 50_000)
	batch := f.submit("one", "b", nil, python("print"))
	f.finish("w1", f.claim("w1"), func(c store.Claimed) job.Result {
		key, err := object.OutputKey("one", c.Job, c.Lease, "stdout", object.WholeOutput)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.objects.Put(t.Context(), key, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: "€", Bytes: info.Bytes, Stored: &job.StoredOutput{Bytes: info.Bytes, SHA256: info.SHA256, Object: key}}}
	})
	b := f.as(oneKey)
	at := "/ui/jobs/" + string(f.jobsOf("one", batch)[0].ID) + "/log/stdout"
	for start, from := range map[int]int64{0: 0, 3: 3, 4: 6, 5: 6, 84_464: 84_465, 149_999: 150_000} {
		page := b.page(fmt.Sprintf("%s?at=%d", at, start))
		if strings.Contains(page, "\uFFFD") || !strings.Contains(page, "Bytes "+display.Count(from)+" to ") {
			t.Errorf("the screen from byte %d has a broken character or does not begin at byte %d: %.1500s", start, from, page)
		}
	}
}

// The page of a step's output counts steps from 1, as the page of its job does.
func TestOutputsOfSteps(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	batch := f.submit("one", "b", nil, job.Spec{Image: "python", Program: job.Program{Command: &job.Command{Steps: []job.Step{{Argv: []string{"a"}}, {Argv: []string{"b"}}}}}})
	f.finish("w1", f.claim("w1"), func(store.Claimed) job.Result {
		return job.Result{Outcome: job.Succeeded, Steps: []job.StepResult{
			{Outcome: job.Succeeded, Stdout: job.Output{Text: "first", Bytes: 5}}, {Outcome: job.Succeeded, Stdout: job.Output{Text: "second", Bytes: 6}}}}
	})
	page := f.as(oneKey).page("/ui/jobs/" + string(f.jobsOf("one", batch)[0].ID) + "/log/stdout?step=1")
	if !strings.Contains(page, "<h1>stdout of step 2</h1>") || !strings.Contains(page, "second") || !strings.Contains(page, "/output/stdout?step=1") {
		t.Error(page)
	}
}

// The page of a session with very many executions states how many it does not show, older and newer.
func TestSessionsOfManyExecutions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := f.putSession(t.Context(), "one", "m") // with one execution
	for n := range 829 {
		raw, err := json.Marshal(job.Execute{ID: job.NewID(), SessionID: id, Outcome: job.Succeeded})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.PutExecute(t.Context(), store.Executed{Session: id, ID: job.NewID(), Code: fmt.Sprintf("code-%d", n+2), Result: raw}); err != nil {
			t.Fatal(err)
		}
	}
	page := f.as(oneKey).page("/ui/sessions/" + string(id))
	for _, want := range []string{"780 older ones are not shown.", "code-800</pre>", "30 newer ones are not shown; the API lists them."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

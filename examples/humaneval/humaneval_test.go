package humaneval

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestProblemsAreComplete(t *testing.T) {
	t.Parallel()
	if n := len(Problems()); n != 164 {
		t.Fatalf("%d problems, want 164", n)
	}
	for _, p := range Problems() {
		if !strings.Contains(p.Prompt, "def "+p.EntryPoint+"(") || !strings.Contains(p.Test, "def check(candidate):") {
			t.Errorf("%s: prompt does not define %s, or test does not define check", p.ID, p.EntryPoint)
		}
		if p.Wrong == p.Reference || p.Wrong == "" || p.Change == "" {
			t.Errorf("%s: the wrong solution is not one", p.ID)
		}
	}
}

func TestBatchIsAcceptable(t *testing.T) {
	t.Parallel()
	specs := Batch("task")
	if len(specs) != 328 {
		t.Fatalf("%d jobs, want 328", len(specs))
	}
	names := map[string]bool{}
	expected := map[job.Outcome]int{}
	for _, s := range specs {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := job.DecodeSpec(raw); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if names[s.Name] {
			t.Errorf("%s comes twice", s.Name)
		}
		names[s.Name] = true
		expected[Expected(s)]++
	}
	if expected[job.Succeeded] != 164 || expected[job.Failed] != 164 {
		t.Errorf("expected outcomes %v", expected)
	}
	if !names["HumanEval/0/reference"] || !names["HumanEval/163/wrong"] {
		t.Error("names are not HumanEval/N/variant")
	}
	if got := string(specs[0].Policy); got != `{"isolation":"task"}` {
		t.Errorf("policy %s", got)
	}
	if Batch("")[0].Policy != nil {
		t.Error("without an isolation there is a policy")
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	graded := func(passed int, outcome job.Outcome) *job.TestsResult {
		return &job.TestsResult{Passed: passed, Failed: 1 - passed, Total: 1, Cases: []job.CaseResult{{Passed: passed == 1, Outcome: outcome}}}
	}
	for _, c := range []struct {
		variant Variant
		outcome job.Outcome
		tests   *job.TestsResult
		want    bool
	}{
		{Reference, job.Succeeded, graded(1, job.Succeeded), true},
		{Reference, job.Failed, graded(0, job.Failed), false},
		{Reference, job.Succeeded, nil, false},
		{Reference, job.Lost, nil, false},
		{Wrong, job.Failed, graded(0, job.Failed), true},
		{Wrong, job.Failed, graded(0, job.OutOfMemory), false},
		{Wrong, job.Succeeded, graded(1, job.Succeeded), false},
		{Wrong, job.Failed, graded(0, job.TimedOut), false},
		{Wrong, job.Lost, nil, false},
		{"", job.Succeeded, graded(1, job.Succeeded), false},
	} {
		r := job.Result{Labels: map[string]string{LabelVariant: string(c.variant)}, Outcome: c.outcome, Tests: c.tests}
		if got := Verdict(r); got != c.want {
			t.Errorf("%s, %s: verdict %v", c.variant, c.outcome, got)
		}
	}
}

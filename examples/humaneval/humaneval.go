// Package humaneval is the example batch: 164 real programming problems, each
// with its reference solution and one that is deliberately wrong, and the
// verdict that a fleet must reach on each of the 328.
//
// The problems are OpenAI's HumanEval (MIT licence; see README.md). The wrong
// solutions are references with one token changed, written by mutate.py.
package humaneval

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

//go:embed humaneval.jsonl
var problemLines []byte

//go:embed wrong.jsonl
var wrongLines []byte

// Variant selects a solution of a problem.
type Variant string

// The variants of each problem.
const (
	Reference Variant = "reference" // passes its check
	Wrong     Variant = "wrong"     // fails it
)

// Variants lists the variants of each problem.
var Variants = []Variant{Reference, Wrong}

// Labels of the jobs of a batch.
const (
	LabelProblem = "problem" // such as HumanEval/0
	LabelVariant = "variant"
)

// Problem is one of the 164.
type Problem struct {
	ID         string `json:"task_id"`
	Prompt     string `json:"prompt"` // imports, signature and docstring of the function
	Reference  string `json:"canonical_solution"`
	Test       string `json:"test"`        // defines check(candidate)
	EntryPoint string `json:"entry_point"` // the function's name
	Wrong      string `json:"-"`
	Change     string `json:"-"` // what is wrong with Wrong
}

// Problems returns all problems in the order of the original. Callers share the
// slice and do not write to it.
var Problems = sync.OnceValue(load)

func load() []Problem {
	problems := decodeLines[Problem](problemLines)
	wrong := decodeLines[struct {
		ID       string `json:"task_id"`
		Solution string `json:"solution"`
		Change   string `json:"change"`
	}](wrongLines)
	if len(problems) != len(wrong) {
		panic(fmt.Sprintf("humaneval: %d problems but %d wrong solutions", len(problems), len(wrong)))
	}
	for i, w := range wrong {
		if w.ID != problems[i].ID {
			panic("humaneval: wrong.jsonl is not in the order of humaneval.jsonl at " + w.ID)
		}
		problems[i].Wrong, problems[i].Change = w.Solution, w.Change
	}
	return problems
}

// decodeLines reads embedded JSON Lines, which a test checks.
func decodeLines[T any](lines []byte) (out []T) {
	for line := range bytes.Lines(lines) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			panic(fmt.Sprintf("humaneval: embedded data: %v", err))
		}
		out = append(out, v)
	}
	return out
}

// Solution returns the code of a solution: a model's completion, with the prompt
// before it.
func (p Problem) Solution(v Variant) string {
	if v == Wrong {
		return p.Prompt + p.Wrong
	}
	return p.Prompt + p.Reference
}

// Program returns the job's program. The check is the problem's own, unchanged.
// Its setup is the prompt, since some checks call a helper that is defined there.
// So the check never uses the solution's version of it.
func (p Problem) Program(v Variant) job.Program {
	return job.Program{Tests: &job.Tests{Setup: p.Prompt, Code: p.Solution(v), Function: p.EntryPoint, Check: p.Test}}
}

// Batch returns the 328 jobs: both solutions of every problem, each graded by the
// problem's check. isolation is the policy's; empty selects the default.
func Batch(isolation string) []job.Spec {
	return batch(isolation, Problem.Program)
}

func batch(isolation string, program func(Problem, Variant) job.Program) []job.Spec {
	var policy json.RawMessage
	if isolation != "" {
		policy = fmt.Appendf(nil, `{"isolation":%q}`, isolation)
	}
	specs := make([]job.Spec, 0, len(Variants)*len(Problems()))
	for _, p := range Problems() {
		for _, v := range Variants {
			specs = append(specs, job.Spec{
				Name:    p.ID + "/" + string(v),
				Labels:  map[string]string{LabelProblem: p.ID, LabelVariant: string(v)},
				Program: program(p, v),
				Policy:  policy,
			})
		}
	}
	return specs
}

// Expected returns how a job of Batch must end.
func Expected(s job.Spec) job.Outcome {
	if s.Labels[LabelVariant] == string(Wrong) {
		return job.Failed
	}
	return job.Succeeded
}

// Verdict reports whether a result is right: the reference passed, or the wrong
// solution failed its check. Any other end of a wrong solution, such as a timeout
// or a loss, is no verdict on it and so not right.
func Verdict(r job.Result) bool {
	t := r.Tests
	if t == nil || t.Total != 1 {
		return false
	}
	switch Variant(r.Labels[LabelVariant]) {
	case Reference:
		return r.Outcome == job.Succeeded && t.Passed == 1
	case Wrong:
		return r.Outcome == job.Failed && t.Failed == 1 && t.Cases[0].Outcome == job.Failed
	}
	return false
}

//go:build languages

package languages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// testProblems judges every solution of every problem: right ones are accepted, wrong ones get
// their expected outcome.
func testProblems(t *testing.T, c *client.Client) {
	all, err := readProblems()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for i, s := range p.solutions {
			t.Run(fmt.Sprintf("%s/%s/%d_%s", p.language, p.name, i, s.want[0]), func(t *testing.T) {
				t.Parallel() // a few at a time
				judge(t, c, &p, s)
			})
		}
	}
}

func judge(t *testing.T, c *client.Client, p *problem, s solution) {
	t.Helper()
	memory, err := p.memory()
	if err != nil {
		t.Fatal(err)
	}
	wall := "20s"
	if slices.Contains(s.want, job.TimedOut) {
		wall = "4s"
	}
	raw, err := json.Marshal(map[string]any{"wall": wall, "memory": memory})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := c.Run(ctx, job.Spec{Image: image, Program: p.program(s), Policy: raw})
	if err != nil {
		t.Fatal(err)
	}
	if got := verdict(res); !slices.Contains(s.want, got) {
		t.Errorf("%s is judged %s, want %s: %s", p.name, got, s.want, said(res))
	}
	if res.Tests != nil && (res.Tests.Passed == len(p.cases)) != (res.Outcome == job.Succeeded) {
		t.Errorf("%s is judged %s, and %d of %d cases passed", p.name, res.Outcome, res.Tests.Passed, len(p.cases))
	}
}

// verdict returns the outcome of a program; with cases, of the first failed one.
func verdict(res *job.Result) job.Outcome {
	if res.Tests == nil || res.Outcome != job.Failed {
		return res.Outcome
	}
	for _, c := range res.Tests.Cases {
		if !c.Passed {
			return c.Outcome
		}
	}
	return res.Outcome
}

// patience is the limit for one job on a busy machine. It is no limit of a program.
const patience = 10 * time.Minute

// said formats a result with an unexpected outcome.
func said(res *job.Result) string {
	text, _ := json.MarshalIndent(struct {
		Outcome        job.Outcome
		Message        string
		ExitCode       *int
		Stdout, Stderr string
		Tests          *job.TestsResult
		Compiled       *job.Compiled
	}{res.Outcome, res.Message, res.ExitCode, res.Stdout.Text, res.Stderr.Text, res.Tests, res.Compiled}, "", "  ")
	return string(text)
}

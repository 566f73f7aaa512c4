package problems

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/assay-run/assay/pkg/job"
)

// contest is a problem in the format of CodeContests. Other fields are ignored.
type contest struct {
	Name      string   `json:"name"`
	Public    ioTests  `json:"public_tests"`
	Private   ioTests  `json:"private_tests"`
	Generated ioTests  `json:"generated_tests"`
	Time      *limit   `json:"time_limit"`
	Memory    int64    `json:"memory_limit_bytes"`
	Right     programs `json:"solutions"`
	Wrong     programs `json:"incorrect_solutions"`
}

type ioTests struct {
	Input  []string `json:"input"`
	Output []string `json:"output"`
}

// limit is a number of seconds, or an object with seconds and nanos.
type limit job.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (l *limit) UnmarshalJSON(raw []byte) error {
	var seconds float64
	var both struct {
		Seconds float64 `json:"seconds"`
		Nanos   float64 `json:"nanos"`
	}
	if json.Unmarshal(raw, &seconds) != nil {
		if err := json.Unmarshal(raw, &both); err != nil {
			return fmt.Errorf("time_limit is neither seconds nor {seconds, nanos}: %w", err)
		}
		seconds = both.Seconds + both.Nanos/1e9
	}
	wall, err := inSeconds("time_limit", seconds)
	*l = limit(wall)
	return err
}

// programs are solutions: parallel lists of languages and sources, or one list of objects.
type programs struct {
	Language []int
	Solution []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *programs) UnmarshalJSON(raw []byte) error {
	var lists struct {
		Language []int    `json:"language"`
		Solution []string `json:"solution"`
	}
	if json.Unmarshal(raw, &lists) == nil {
		p.Language, p.Solution = lists.Language, lists.Solution
		return nil
	}
	var one []struct {
		Language int    `json:"language"`
		Solution string `json:"solution"`
	}
	if err := json.Unmarshal(raw, &one); err != nil {
		return fmt.Errorf("solutions are neither {language, solution} of lists nor a list of these: %w", err)
	}
	for _, s := range one {
		p.Language, p.Solution = append(p.Language, s.Language), append(p.Solution, s.Solution)
	}
	return nil
}

// contestLanguages maps the numbers in the data set. Python 2 is not in the catalogue.
var contestLanguages = map[int]string{2: "cpp", 3: "python", 4: "java"}

// CodeContests reads problems: one JSON object, an array, or a sequence of objects.
func CodeContests(ctx context.Context, r io.Reader, upload Upload) (out []*Problem, err error) {
	b := bufio.NewReader(r)
	d := json.NewDecoder(b)
	for first, _ := b.Peek(1); len(first) == 1 && first[0] <= ' '; first, _ = b.Peek(1) {
		_, _ = b.ReadByte()
	}
	first, _ := b.Peek(1)
	list := len(first) == 1 && first[0] == '['
	if list {
		if _, err := d.Token(); err != nil {
			return nil, err
		}
	}
	for n := 1; !list || d.More(); n++ {
		var c contest
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("problem %d: %w", n, err)
		}
		p, err := c.problem(ctx, upload)
		if err != nil {
			return nil, fmt.Errorf("problem %d (%.80q): %w", n, c.Name, err)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("it contains no problem")
	}
	return out, nil
}

func (c *contest) problem(ctx context.Context, upload Upload) (*Problem, error) {
	if c.Name == "" {
		return nil, errors.New("it has no name: a problem is an object with name, public_tests and private_tests")
	}
	p := &Problem{Name: c.Name, Memory: job.Size(max(c.Memory, 0))}
	p.Tests.StopOnFailure = true
	wall := defaultTime
	if c.Time != nil {
		wall = job.Duration(*c.Time)
	} else {
		p.Notes = append(p.Notes, fmt.Sprintf("it names no time limit: a case has %s", defaultTime))
	}
	for _, set := range []struct {
		kind  string
		tests ioTests
	}{{"public", c.Public}, {"private", c.Private}, {"generated", c.Generated}} {
		if len(set.tests.Input) != len(set.tests.Output) {
			return nil, fmt.Errorf("%s_tests has %d inputs and %d outputs", set.kind, len(set.tests.Input), len(set.tests.Output))
		}
		for i := range set.tests.Input {
			name := fmt.Sprintf("%s %d", set.kind, i+1)
			if err := p.add(ctx, name, []byte(set.tests.Input[i]), []byte(set.tests.Output[i]), wall, upload); err != nil {
				return nil, err
			}
		}
	}
	if len(p.Tests.Stdio) == 0 {
		return nil, errors.New("it has no tests")
	}
	for i := range p.Tests.Stdio {
		p.Tests.Stdio[i].Compare = job.CompareTokens
	}
	p.take(c.Right, "accepted")
	p.take(c.Wrong, "wrong_answer")
	return p, p.finish(ctx, upload)
}

// take adds the solutions in languages of the catalogue.
func (p *Problem) take(from programs, expected string) {
	left := 0
	for i, source := range from.Solution {
		name := ""
		if i < len(from.Language) {
			name = contestLanguages[from.Language[i]]
		}
		if name == "" {
			left++
			continue
		}
		p.Solutions = append(p.Solutions, Solution{Name: fmt.Sprintf("%s-%d", expected, i+1), Expected: expected, Language: name, Source: source})
	}
	if left > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d solutions (%s) are in languages that are not in the catalogue", left, expected))
	}
}

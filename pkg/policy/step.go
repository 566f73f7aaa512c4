package policy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/assay-run/assay/pkg/job"
)

// stepLimits holds the fields that the policy of a step may set.
type stepLimits struct {
	Wall    job.Duration `json:"wall"`
	CPUTime job.Duration `json:"cpu_time"`
	Stdout  Stream       `json:"stdout"`
	Stderr  Stream       `json:"stderr"`
}

// ParseStep returns the policy of one step of a command: the job's policy with the limits on wall,
// cpu_time, stdout and stderr from raw, which may only lower them. The job's own limits also apply
// to all steps together. Errors are *job.FieldError.
func ParseStep(raw json.RawMessage, parent Policy) (Policy, error) {
	return parseStep(raw, "policy", parent)
}

func parseStep(raw json.RawMessage, at string, parent Policy) (Policy, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return parent, nil
	}
	l := stepLimits{parent.Wall, parent.CPUTime, parent.Stdout, parent.Stderr}
	if err := job.Decode(raw, at, &l); err != nil {
		return Policy{}, err
	}
	for _, c := range []struct {
		field string
		above bool
		most  fmt.Stringer
	}{
		{"wall", l.Wall > parent.Wall, parent.Wall},
		{"cpu_time", l.CPUTime > parent.CPUTime, parent.CPUTime},
		{"stdout.limit", l.Stdout.Limit > parent.Stdout.Limit, parent.Stdout.Limit},
		{"stderr.limit", l.Stderr.Limit > parent.Stderr.Limit, parent.Stderr.Limit},
	} {
		if c.above {
			return Policy{}, job.Invalid(at+"."+c.field, "must not be above the job's own limit, %s", c.most)
		}
	}
	p := parent
	p.Wall, p.CPUTime, p.Stdout, p.Stderr = l.Wall, l.CPUTime, l.Stdout, l.Stderr
	return p, p.validateAt(at)
}

// CheckSpec checks a job against its policy. Errors are *job.FieldError. It checks that:
//
//   - input files lie on writable paths and fit there
//   - steps stay below the job's limits
//   - each requested capability is enforced for this kind of program
func (p Policy) CheckSpec(s job.Spec) error {
	if err := p.checkFiles(s.Files); err != nil {
		return err
	}
	if err := p.Check(UseOfProgram(s.Program)); err != nil {
		return err
	}
	if t := s.Program.Tests; t != nil {
		if err := p.checkArgv(t); err != nil {
			return err
		}
		return p.checkWalls(t)
	}
	if s.Program.Command == nil {
		return nil
	}
	for i, step := range s.Program.Command.Steps {
		if _, err := parseStep(step.Policy, fmt.Sprintf("program.command.steps[%d].policy", i), p); err != nil {
			return err
		}
	}
	return nil
}

// checkArgv returns an error if there are rules for imports and the program is not Python.
func (p Policy) checkArgv(t *job.Tests) error {
	if !p.Imports.Any() {
		return nil
	}
	for i, run := range t.Stdio {
		if len(run.Argv) > 0 {
			return job.Invalid("policy.imports", "program.tests.stdio[%d].argv runs another program, whose imports are not checked; omit argv or the import rules", i)
		}
	}
	return nil
}

// checkWalls returns an error for a test whose wall exceeds the job's own. It accepts such a test
// if a ceiling has lowered the job's wall.
func (p Policy) checkWalls(t *job.Tests) error {
	if p.Asked["wall"] != "" {
		return nil
	}
	check := func(field string, wall job.Duration) error {
		if wall <= p.Wall {
			return nil
		}
		return job.Invalid("program.tests."+field, "%s is more than the whole job has, policy.wall %s: raise that, or lower this", wall, p.Wall)
	}
	if err := check("case_wall", t.CaseWall); err != nil {
		return err
	}
	for i := range t.Cases {
		if err := check(fmt.Sprintf("cases[%d].wall", i), t.Cases[i].Wall); err != nil {
			return err
		}
	}
	more := t.Multiplier().Wall
	for i := range t.Stdio {
		field := fmt.Sprintf("stdio[%d].wall", i)
		if t.Stdio[i].Wall == 0 {
			field = "case_wall"
		}
		if err := check(field, job.Times(t.WallOf(t.Stdio[i].Wall), more)); err != nil {
			return err
		}
	}
	return nil
}

func (p Policy) checkFiles(files map[string]job.File) error {
	if len(files) == 0 {
		return nil
	}
	places := slices.Concat(p.Write, p.Read)
	outside, total := "", job.Size(0)
	for f, content := range files {
		within := slices.ContainsFunc(places, func(w string) bool { return beneath(f, w) && f != w })
		if !within && (outside == "" || f < outside) {
			outside = f
		}
		total += inlineSize(content)
	}
	if outside != "" {
		return job.Invalid(fmt.Sprintf("files[%q]", outside), "lies outside the paths of policy.write and policy.read: %s", names(places))
	}
	if total > p.Disk || len(files) > p.Files {
		return job.Invalid("files", "%d files of %s do not fit into policy.disk %s and policy.files %d", len(files), total, p.Disk, p.Files)
	}
	return nil
}

func inlineSize(f job.File) job.Size {
	switch {
	case f.Text != nil:
		return job.Size(len(*f.Text))
	case f.Base64 != nil:
		return job.Size(base64.StdEncoding.DecodedLen(len(*f.Base64)))
	}
	return 0 // a blob: its size is unknown before the fetch
}

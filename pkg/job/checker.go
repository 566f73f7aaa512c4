package job

import (
	"strconv"
	"strings"
	"time"
)

// Checker is a program that decides on the output of a case, or that talks with the program of a case and decides on it.
// It runs in a sandbox of its own, with limits of its own. Its failure is the tests', unless it is one on the output only: a
// checker that accepts the case's answer works.
type Checker struct {
	Protocol Protocol `json:"protocol,omitempty"` // default kattis
	Code     *Code    `json:"code,omitempty"`     // in a language of the catalogue; or argv
	Argv     []string `json:"argv,omitempty"`     // a program of the image
	Flags    []string `json:"flags,omitempty"`    // arguments after those of the protocol
	Wall     Duration `json:"wall,omitempty"`     // for each case; default the policy's, and at least DefaultCheckerWall
	Memory   Size     `json:"memory,omitempty"`   // default the policy's, and at least DefaultCheckerMemory
	// MaxScore is the score that is a full pass, where the protocol has scores; default 1.
	MaxScore float64 `json:"max_score,omitempty"`
}

// Protocol is how a checker is called, and how it answers.
type Protocol string

// The protocols.
const (
	// Kattis is that of problem packages of Kattis and the ICPC: the arguments are the files of input and answer and a
	// directory for messages, the output is on its standard input; it exits with 42 for accepted and 43 for wrong.
	Kattis Protocol = "kattis"
	// Testlib is that of testlib.h: the arguments are the files of input, output and answer; it exits with 0 for accepted, 1
	// for wrong, 2 for a wrong format, 7 for points, and 3 for a failure of its own.
	Testlib Protocol = "testlib"
)

// What a checker has at least where it does not say, if the ceiling of its tenant allows it.
const (
	DefaultCheckerWall   = Duration(10 * time.Second)
	DefaultCheckerMemory = 512 * MiB
)

// Multiplier is what a language's share of the limits of a case is multiplied by: 2 is twice as much. 0 is 1.
type Multiplier struct {
	Wall   float64 `json:"wall,omitempty"`
	Memory float64 `json:"memory,omitempty"`
}

// Multiplier is that of the solution's language, by its name in the catalogue.
func (t *Tests) Multiplier() Multiplier {
	if t.Language == "" {
		return t.Limits["python"]
	}
	return t.Limits[t.Language]
}

// MaxMultiplier is the largest of either.
const MaxMultiplier = 100

// Times returns a limit multiplied by m.
func Times[T ~int64](limit T, m float64) T {
	if m == 0 {
		return limit
	}
	return T(float64(limit) * m)
}

// CheckerCode is the code of the checker or interactor; nil: there is none. t may be nil.
func (t *Tests) CheckerCode() *Code {
	switch {
	case t == nil:
	case t.Checker != nil:
		return t.Checker.Code
	case t.Interactor != nil:
		return t.Interactor.Code
	}
	return nil
}

// MemoryFor is what a checker's sandbox has, for a job with that much. Admission has it say so.
func (c *Checker) MemoryFor(policy Size) Size {
	if c.Memory > 0 {
		return c.Memory
	}
	return policy
}

// WallFor is what a checker has for one case, for a job with that much.
func (c *Checker) WallFor(policy Duration) Duration {
	if c.Wall > 0 {
		return c.Wall
	}
	return policy
}

func (t *Tests) validateJudging(at string) error {
	if err := t.Checker.validate(at+".checker", t); err != nil {
		return err
	}
	if err := t.Interactor.validate(at+".interactor", t); err != nil {
		return err
	}
	if t.Checker != nil && t.Interactor != nil {
		return Invalid(at+".interactor", "is there beside a checker: an interactor decides by itself, so leave one of the two out")
	}
	for name, m := range t.Limits {
		for _, f := range []struct {
			field string
			value float64
		}{{"wall", m.Wall}, {"memory", m.Memory}} {
			if f.value != 0 && !(f.value >= 0.01 && f.value <= MaxMultiplier) {
				return Invalid(at+".limits."+name+"."+f.field, "must be 0.01 to %d: 2 is twice what a case has", MaxMultiplier)
			}
		}
	}
	return nil
}

func (c *Checker) validate(at string, t *Tests) error {
	if c == nil {
		return nil
	}
	if len(t.Stdio) == 0 {
		return Invalid(at, "is for stdio, and there is none")
	}
	for i := range t.Stdio {
		if s := &t.Stdio[i]; s.Compare != "" || s.IgnoreCase {
			return Invalid("program.tests.stdio["+strconv.Itoa(i)+"].compare", "is for outputs that are compared: the checker or interactor decides on them here, so leave it out")
		}
	}
	if c.Protocol != "" && c.Protocol != Kattis && c.Protocol != Testlib {
		return Invalid(at+".protocol", "must be kattis or testlib")
	}
	if (c.Code != nil) == (len(c.Argv) > 0) {
		return Invalid(at, "must have code or argv: exactly one of them")
	}
	if err := c.validateProgram(at); err != nil {
		return err
	}
	if c.Wall < 0 || c.Wall > MaxWall {
		return Invalid(at+".wall", "must be 0s to %s", MaxWall)
	}
	if c.Memory < 0 || c.Memory > 0 && c.Memory < MinCaseMemory {
		return Invalid(at+".memory", "must be at least %s", MinCaseMemory)
	}
	if !(c.MaxScore >= 0 && c.MaxScore <= MaxWeight) {
		return Invalid(at+".max_score", "must be 0 to %g", float64(MaxWeight))
	}
	return nil
}

func (c *Checker) validateProgram(at string) error {
	argv := append(append([]string{}, c.Argv...), c.Flags...)
	if c.Code != nil {
		if err := c.Code.validate(at + ".code"); err != nil {
			return err
		}
		for name := range c.Code.Files {
			if name == "feedback" || strings.HasPrefix(name, "feedback/") {
				return Invalid(at+".code.files", "%q lies where a checker leaves its messages: give it another name", Clip(name, 80))
			}
		}
		if c.Code.Stdin != "" || len(c.Code.Args) > 0 {
			return Invalid(at+".code", "has stdin or args: the protocol says what a checker reads; give arguments of yours as flags")
		}
		argv = append([]string{"checker"}, c.Flags...)
	}
	return validateRun(at, argv, "", "")
}

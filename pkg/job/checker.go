package job

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Checker is a program that judges the output of a case. An interactor also talks with the program
// of the case. It runs in its own sandbox with its own limits.
//
// A failure of the checker is a CheckError. The exception is a checker of output that accepts the
// reference answer: then the solution's output is at fault.
type Checker struct {
	Protocol Protocol `json:"protocol,omitempty"` // default kattis
	Code     *Code    `json:"code,omitempty"`     // in a language of the catalogue; an alternative to argv
	Argv     []string `json:"argv,omitempty"`     // a program of the image
	Flags    []string `json:"flags,omitempty"`    // arguments after those of the protocol
	Wall     Duration `json:"wall,omitempty"`     // for each case; default: the policy's, at least DefaultCheckerWall
	Memory   Size     `json:"memory,omitempty"`   // default: the policy's, at least DefaultCheckerMemory
	// MaxScore is the score of a full pass, for protocols with scores. Default 1.
	MaxScore float64 `json:"max_score,omitempty"`
}

// Protocol is the calling convention of a checker.
type Protocol string

// The protocols.
const (
	// Kattis is the convention of Kattis and ICPC problem packages. The arguments are the files of
	// input and answer and a directory for messages. The output is on standard input. Exit code 42
	// means accepted, 43 means wrong.
	Kattis Protocol = "kattis"
	// Testlib is the convention of testlib.h. The arguments are the files of input, output and
	// answer. The exit codes are 0 for accepted, 1 for wrong, 2 for a wrong format, 7 for points, and
	// 3 for a failure of the checker.
	Testlib Protocol = "testlib"
)

// The minimum defaults of a checker without own limits, if the tenant's ceiling allows them.
const (
	DefaultCheckerWall   = Duration(10 * time.Second)
	DefaultCheckerMemory = 512 * MiB
)

// Multiplier holds the factors by which a language multiplies the limits of a case. 0 means 1.
type Multiplier struct {
	Wall   float64 `json:"wall,omitempty"`
	Memory float64 `json:"memory,omitempty"`
}

// Multiplier returns the factors for the solution's language, by its name in the catalogue.
func (t *Tests) Multiplier() Multiplier {
	if t.Language == "" {
		return t.Limits["python"]
	}
	return t.Limits[t.Language]
}

// MaxMultiplier is the largest value of either factor.
const MaxMultiplier = 100

// Times returns a limit multiplied by m.
func Times[T ~int64](limit T, m float64) T {
	if m == 0 {
		return limit
	}
	return T(float64(limit) * m)
}

// CheckerCode returns the code of the checker or interactor, or nil if there is none. t may be nil.
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

// MemoryFor returns the memory of the checker's sandbox, given the job's memory. Admission stores
// it in the spec.
func (c *Checker) MemoryFor(policy Size) Size {
	if c.Memory > 0 {
		return c.Memory
	}
	return policy
}

// WallFor returns the checker's wall for one case, given the job's wall.
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
		return Invalid(at+".interactor", "excludes checker: an interactor gives the verdict; leave one of the two out")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Limits)) {
		m := t.Limits[name]
		for _, f := range []struct {
			field string
			value float64
		}{{"wall", m.Wall}, {"memory", m.Memory}} {
			if f.value != 0 && !(f.value >= 0.01 && f.value <= MaxMultiplier) {
				return Invalid(at+".limits."+name+"."+f.field, "must be 0.01 to %d: 2 is twice the limit of a case", MaxMultiplier)
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
			return Invalid("program.tests.stdio["+strconv.Itoa(i)+"].compare", "is for compared outputs, and here the checker or interactor gives the verdict; leave it out")
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
		for _, name := range slices.Sorted(maps.Keys(c.Code.Files)) {
			if name == "feedback" || strings.HasPrefix(name, "feedback/") {
				return Invalid(at+".code.files", "%q is the directory of a checker's messages; use another name", Clip(name, 80))
			}
		}
		if c.Code.Stdin != "" || len(c.Code.Args) > 0 {
			return Invalid(at+".code", "has stdin or args, which the protocol sets; pass your own arguments as flags")
		}
		argv = append([]string{"checker"}, c.Flags...)
	}
	return validateRun(at, argv, "", "")
}

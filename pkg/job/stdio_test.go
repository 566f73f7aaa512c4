package job

import (
	"errors"
	"strings"
	"testing"
)

// Nonsense in a case, or in what decides on it, is named.
func TestStdioNonsense(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	checker := func(c *Checker) *Tests { return &Tests{Checker: c} }
	for name, c := range map[string]struct {
		stdio Stdio
		tests *Tests // besides
		field string // of program.tests; "": it is fine
	}{
		"nothing":                        {},
		"base64":                         {stdio: Stdio{StdinBase64: "AA==", StdoutBase64: "/w=="}},
		"blobs":                          {stdio: Stdio{StdinBlob: digest, StdoutBlob: digest}},
		"text and base64":                {stdio: Stdio{Stdin: "x", StdinBase64: "AA=="}, field: "stdio[0].stdin"},
		"base64 and a blob":              {stdio: Stdio{StdoutBase64: "AA==", StdoutBlob: digest}, field: "stdio[0].stdout"},
		"NUL in text":                    {stdio: Stdio{Stdout: "a\x00"}, field: "stdio[0].stdout"},
		"invalid UTF-8":                  {stdio: Stdio{Stdin: "\xff"}, field: "stdio[0].stdin"},
		"no base64":                      {stdio: Stdio{StdinBase64: "?"}, field: "stdio[0].stdin_base64"},
		"no digest":                      {stdio: Stdio{StdoutBlob: "../../etc/passwd"}, field: "stdio[0].stdout_blob"},
		"unordered":                      {stdio: Stdio{Compare: CompareUnordered, IgnoreCase: true}},
		"another way":                    {stdio: Stdio{Compare: "fuzzy"}, field: "stdio[0].compare"},
		"both tolerances":                {stdio: Stdio{Compare: CompareFloats, AbsoluteTolerance: 1e-9, RelativeTolerance: 1e-6}},
		"three tolerances":               {stdio: Stdio{Compare: CompareFloats, Tolerance: 1, AbsoluteTolerance: 1e-9}, field: "stdio[0].tolerance"},
		"a tolerance without floats":     {stdio: Stdio{Compare: CompareTokens, AbsoluteTolerance: 1e-9}, field: "stdio[0].absolute_tolerance"},
		"a tolerance by default":         {stdio: Stdio{RelativeTolerance: 1e-9}, field: "stdio[0].relative_tolerance"},
		"a negative tolerance":           {stdio: Stdio{Compare: CompareFloats, RelativeTolerance: -1}, field: "stdio[0].relative_tolerance"},
		"case of bytes":                  {stdio: Stdio{Compare: CompareExact, IgnoreCase: true}, field: "stdio[0].ignore_case"},
		"a checker":                      {tests: checker(&Checker{Argv: []string{"check"}, Flags: []string{"a"}})},
		"a checker of code":              {tests: checker(&Checker{Code: &Code{Language: "python", Source: "x"}, Protocol: Testlib})},
		"a checker of nothing":           {tests: checker(&Checker{}), field: "checker"},
		"a checker of both":              {tests: checker(&Checker{Argv: []string{"x"}, Code: &Code{Source: "x"}}), field: "checker"},
		"a checker without code":         {tests: checker(&Checker{Code: &Code{Language: "python"}}), field: "checker.code"},
		"a checker with stdin":           {tests: checker(&Checker{Code: &Code{Language: "python", Source: "x", Stdin: "x"}}), field: "checker.code"},
		"another protocol":               {tests: checker(&Checker{Argv: []string{"x"}, Protocol: "icpc"}), field: "checker.protocol"},
		"a checker with too little":      {tests: checker(&Checker{Argv: []string{"x"}, Memory: MiB}), field: "checker.memory"},
		"a checker with too much time":   {tests: checker(&Checker{Argv: []string{"x"}, Wall: MaxWall + 1}), field: "checker.wall"},
		"a negative score":               {tests: checker(&Checker{Argv: []string{"x"}, MaxScore: -1}), field: "checker.max_score"},
		"NUL in a flag":                  {tests: checker(&Checker{Argv: []string{"x"}, Flags: []string{"\x00"}}), field: "checker.argv[1]"},
		"a checker beside a comparison":  {stdio: Stdio{Compare: CompareExact}, tests: checker(&Checker{Argv: []string{"x"}}), field: "stdio[0].compare"},
		"a checker beside an interactor": {tests: &Tests{Checker: &Checker{Argv: []string{"x"}}, Interactor: &Checker{Argv: []string{"x"}}}, field: "interactor"},
		"an interactor":                  {tests: &Tests{Interactor: &Checker{Argv: []string{"x"}}}},
		"multipliers":                    {tests: &Tests{Limits: map[string]Multiplier{"java": {Wall: 2, Memory: 1.5}, "c": {}}}},
		"a multiplier below zero":        {tests: &Tests{Limits: map[string]Multiplier{"java": {Wall: -2}}}, field: "limits.java.wall"},
		"a large multiplier":             {tests: &Tests{Limits: map[string]Multiplier{"java": {Memory: 1000}}}, field: "limits.java.memory"},
	} {
		tests := &Tests{}
		if c.tests != nil {
			tests = c.tests
		}
		tests.Code, tests.Stdio = "print(1)", []Stdio{c.stdio}
		err := Spec{Program: Program{Tests: tests}}.Validate()
		wrong := new(FieldError)
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &wrong) || wrong.Field != "program.tests."+c.field) {
			t.Errorf("%s: %v, want %q", name, err, c.field)
		}
	}
	if err := (Spec{Program: Program{Tests: &Tests{Code: "f", Function: "f", Cases: []Case{{}}, Checker: &Checker{Argv: []string{"x"}}}}}).Validate(); err == nil {
		t.Error("a checker without stdio is fine")
	}
}

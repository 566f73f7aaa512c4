package job

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func (p Program) validate() error {
	n := 0
	for _, set := range []bool{p.Python != nil, p.Command != nil, p.Tests != nil, p.Code != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return Invalid("program", "must be exactly one of python, command, tests, code; it has %d", n)
	}
	switch {
	case p.Python != nil:
		return p.Python.validate()
	case p.Command != nil:
		return p.Command.validate()
	case p.Code != nil:
		return p.Code.validate("program.code")
	}
	return p.Tests.validate()
}

func (p *Python) validate() error {
	if bad := badCode(p.Code); bad != "" {
		return Invalid("program.python.code", "%s", bad)
	}
	return each("program.python.variables", p.Variables, func(k string, _ json.RawMessage) string { return badIdentifier(k) })
}

func (c *Command) validate() error {
	const at = "program.command"
	if (len(c.Argv) > 0) == (len(c.Steps) > 0) {
		return Invalid(at, "must have argv or steps: exactly one of them, and not empty")
	}
	if len(c.Steps) == 0 {
		return validateRun(at, c.Argv, c.Stdin, c.Dir)
	}
	if c.Stdin != "" || c.Dir != "" {
		return Invalid(at, "has steps: give stdin and dir to the step that needs them")
	}
	if len(c.Steps) > MaxSteps {
		return Invalid(at+".steps", "has %d steps; at most %d", len(c.Steps), MaxSteps)
	}
	for i := range c.Steps {
		if err := c.validateStep(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Command) validateStep(i int) error {
	s, at := &c.Steps[i], "program.command.steps["+strconv.Itoa(i)+"]"
	if p := badName(s.Name, MaxName); p != "" {
		return Invalid(at+".name", "%s", p)
	}
	for j := range c.Steps[:i] {
		if c.Steps[j].Name == s.Name {
			return Invalid(at+".name", "%q is the name of step %d too", s.Name, j)
		}
	}
	if len(s.Policy) > 0 && s.Policy[0] != '{' && string(s.Policy) != "null" {
		return Invalid(at+".policy", "must be an object")
	}
	return validateRun(at, s.Argv, s.Stdin, s.Dir)
}

func validateRun(at string, argv []string, stdin, dir string) error {
	if len(argv) == 0 || argv[0] == "" {
		return Invalid(at+".argv", "must name a program: an image's own entrypoint and command are not run")
	}
	if len(argv) > MaxArgs {
		return Invalid(at+".argv", "has %d arguments; at most %d", len(argv), MaxArgs)
	}
	for i, a := range argv {
		if p := badText(a, int(MaxArg)); p != "" {
			return Invalid(at+".argv["+strconv.Itoa(i)+"]", "%s", p)
		}
	}
	if p := badText(stdin, int(MaxSpec)); p != "" {
		return Invalid(at+".stdin", "%s; send other bytes as a file", p)
	}
	if dir == "" || dir == "/" {
		return nil
	}
	if p := badPath(dir); p != "" {
		return Invalid(at+".dir", "%s", p)
	}
	return nil
}

func (t *Tests) validate() error {
	const at = "program.tests"
	for _, c := range []struct {
		field, code string
		needed      bool
	}{{"code", t.Code, !t.onlyArgv() && len(t.Files) == 0}, {"setup", t.Setup, false}, {"check", t.Check, false}} {
		if p := badCode(c.code); p != "" && (c.needed || c.code != "") {
			return Invalid(at+"."+c.field, "%s", p)
		}
	}
	if len(t.Cases) == 0 && t.Check == "" && len(t.Stdio) == 0 {
		return Invalid(at, "must have cases, check or stdio: without them there is nothing to grade")
	}
	if len(t.Cases)+len(t.Stdio) > MaxCases {
		return Invalid(at, "has %d cases; at most %d", len(t.Cases)+len(t.Stdio), MaxCases)
	}
	if err := t.validateFunctions(at); err != nil {
		return err
	}
	if err := t.validateLanguage(at); err != nil {
		return err
	}
	if t.CaseWall < 0 || t.CaseWall > MaxWall {
		return Invalid(at+".case_wall", "must be 0s to %s", MaxWall)
	}
	if field, p := t.badMatching(); p != "" {
		return Invalid(at+"."+field, "%s", p)
	}
	for i := range t.Cases {
		if field, p := t.Cases[i].problem(); p != "" {
			return Invalid(join(at+".cases["+strconv.Itoa(i)+"]", field), "%s", p)
		}
	}
	for i := range t.Stdio {
		if field, p := t.Stdio[i].problem(); p != "" {
			return Invalid(join(at+".stdio["+strconv.Itoa(i)+"]", field), "%s", p)
		}
	}
	return t.validateJudging(at)
}

// onlyArgv reports whether every case runs a program of its own and none the solution.
func (t *Tests) onlyArgv() bool {
	return len(t.Cases) == 0 && t.Check == "" && len(t.Stdio) > 0 && !slices.ContainsFunc(t.Stdio, func(s Stdio) bool { return len(s.Argv) == 0 })
}

// validateFunctions checks the functions under test.
func (t *Tests) validateFunctions(at string) error {
	switch {
	case t.Function == "" && len(t.Cases) > 0:
		return Invalid(at+".function", "must name the function under test: cases call it")
	case t.Process != "" && t.Process != Separate && t.Process != Shared:
		return Invalid(at+".process", "must be separate or shared")
	case t.Process == Shared && t.Check == "":
		return Invalid(at+".process", "shared is for a check, which is missing; leave it out")
	case t.Function == "" && t.Check != "" && len(t.Functions) == 0 && t.Process != Shared:
		return Invalid(at+".function", "must name the function under test; if the check calls several, list their names in functions")
	case len(t.Functions) > 0 && t.Check == "":
		return Invalid(at+".functions", "are for a check, which is missing; cases call function")
	case t.Class != nil && t.Check == "":
		return Invalid(at+".class", "is for a check, which is missing; leave it out")
	case len(t.Functions) > MaxFunctions:
		return Invalid(at+".functions", "has %d names; at most %d", len(t.Functions), MaxFunctions)
	}
	if t.Function != "" {
		if p := badFunction(t.Function); p != "" {
			return Invalid(at+".function", "%s", p)
		}
	}
	first, _, _ := strings.Cut(t.Function, ".")
	taken := map[string]bool{"candidate": true, strings.TrimSuffix(first, "()"): t.Function != ""}
	for i, name := range t.Functions {
		field := at + ".functions[" + strconv.Itoa(i) + "]"
		if p := badIdentifier(name); p != "" {
			return Invalid(field, "%s", p)
		}
		if taken[name] {
			return Invalid(field, "%s is a duplicate; give each name once, without the name in function", name)
		}
		taken[name] = true
	}
	return nil
}

func (c *Case) problem() (field, problem string) {
	if c.ExpectedException != "" && (c.Expected != nil || c.ExpectedType != "") {
		return "expected_exception", "excludes expected and expected_type: a call ends in one way"
	}
	if c.Wall < 0 || c.Wall > MaxWall {
		return "wall", "must be 0s to " + MaxWall.String()
	}
	if err := each("kwargs", c.Kwargs, func(k string, _ json.RawMessage) string { return badIdentifier(k) }); err != nil {
		bad := err.(*FieldError)
		return bad.Field, bad.Problem
	}
	for _, s := range []struct{ field, text string }{
		{"name", c.Name}, {"expected_type", c.ExpectedType}, {"expected_exception", c.ExpectedException},
	} {
		if p := badName(s.text, MaxName); s.text != "" && p != "" {
			return s.field, p
		}
	}
	if field, p := badMatching(c.Match, c.Tolerance, c.AbsoluteTolerance, c.RelativeTolerance); p != "" {
		return field, p
	}
	return "weight", badWeight(c.Weight)
}

func badWeight(w *float64) string {
	if w != nil && !(*w >= 0 && *w <= MaxWeight) { // false for NaN
		return "must be 0 to " + strconv.FormatFloat(MaxWeight, 'f', -1, 64)
	}
	return ""
}

func badCode(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return badText(s, int(MaxCode))
}

// badFunction checks the name of a function or a method: Solution.twoSum and Solution().twoSum.
func badFunction(s string) string {
	if strings.HasSuffix(s, "()") {
		return "must be a name, not a call: omit the last ()"
	}
	if len(s) > MaxName {
		return badName(s, MaxName)
	}
	for part := range strings.SplitSeq(s, ".") {
		if p := badIdentifier(strings.TrimSuffix(part, "()")); p != "" {
			return p + "; or several with dots between, such as Class.method or Class().method"
		}
	}
	return ""
}

func badIdentifier(s string) string {
	if p := badName(s, MaxName); p != "" {
		return p
	}
	for i, c := range s {
		if c != '_' && !unicode.In(c, nameStart...) && (i == 0 || !unicode.In(c, nameRest...)) {
			return "must be a python name: letters, digits and _, not starting with a digit"
		}
	}
	return ""
}

func (f File) problem() string {
	n := 0
	for _, set := range []bool{f.Text != nil, f.Base64 != nil, f.Blob != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		return "must have exactly one of text, base64, blob; it has " + strconv.Itoa(n)
	}
	switch {
	case f.Text != nil:
		if p := badText(*f.Text, int(MaxSpec)); p != "" {
			return "text " + p + "; send other bytes as base64"
		}
	case f.Base64 != nil:
		if err := checkBase64(*f.Base64); err != nil {
			return "base64 is not valid: " + err.Error()
		}
	case f.Blob != "":
		return badDigest(f.Blob)
	}
	return ""
}

// checkBase64 validates s and discards the bytes. Short input, the usual case, needs no stream.
func checkBase64(s string) (err error) {
	var buf [768]byte
	if base64.StdEncoding.DecodedLen(len(s)) <= len(buf) {
		_, err = base64.StdEncoding.Decode(buf[:], []byte(s))
		return err
	}
	_, err = io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)))
	return err
}

// badDigest checks the digest of a blob.
func badDigest(s string) string {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "blob must be sha256: and 64 lower-case hex digits"
	}
	return ""
}

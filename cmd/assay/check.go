package main

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/program"
	"github.com/assay-run/assay/pkg/client"
)

// checkCmd implements assay check.
type checkCmd struct {
	Files  []string `arg:"" name:"file" help:"Python files; - reads standard input."`
	Policy string   `help:"Policy whose import rules apply: a JSON file, or the name of a stored policy." placeholder:"FILE|NAME"`
	Image  string   `help:"Image whose Python parses the files." placeholder:"IMAGE"`
	Pool   string   `help:"Pool of workers to check in." placeholder:"POOL"`
	Name   []string `help:"Names that are defined for the programs, such as variables." placeholder:"NAME"`
}

// exitFound is the exit code of a check with findings. It differs from our failures (exitOurs) and
// from success.
const exitFound = 1

// checkBytes is the most source in one request: its JSON stays below the limit of requests.
const checkBytes = 3 << 20

// Run checks files like a compiler, without running them.
func (c *checkCmd) Run(a *app) error {
	programs, err := c.programs(a.stdin)
	if err != nil {
		return err
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	report, err := c.check(a, fleet, programs)
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.printJSON(report)
	}
	clean := true
	for i := range report.Programs {
		found := findings(&report.Programs[i])
		clean = clean && len(found) == 0
		for _, f := range found {
			if !a.JSON {
				a.printf("%s\n", f)
			}
		}
	}
	if err == nil && !clean {
		return exitCode(exitFound)
	}
	return err
}

func (c *checkCmd) programs(stdin io.Reader) ([]api.CheckProgram, error) {
	policy, err := program.ReadPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	out := make([]api.CheckProgram, len(c.Files))
	for i, name := range c.Files {
		var code []byte
		if name == "-" {
			code, err = io.ReadAll(stdin)
		} else {
			code, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(code) {
			return nil, fmt.Errorf("%s: is not UTF-8", name)
		}
		out[i] = api.CheckProgram{Name: name, Code: string(code), Names: c.Name, Policy: policy}
	}
	return out, nil
}

// check sends as many requests as necessary and returns one report.
func (c *checkCmd) check(a *app, fleet *client.Client, programs []api.CheckProgram) (*api.CheckReport, error) {
	var all *api.CheckReport
	for len(programs) > 0 {
		n, size := 0, 0
		for n < len(programs) && n < 500 && (n == 0 || size+len(programs[n].Code) <= checkBytes) {
			size += len(programs[n].Code)
			n++
		}
		names := make([]string, n) // a path may be longer than a name
		for i := range n {
			names[i], programs[i].Name = programs[i].Name, ""
		}
		report, err := fleet.Check(a.ctx, api.CheckRequest{Programs: programs[:n], Image: c.Image, Pool: c.Pool})
		if err != nil {
			return nil, err
		}
		for i := range report.Programs {
			report.Programs[i].Name = names[i]
		}
		if all == nil {
			all = report
		} else {
			all.Programs = append(all.Programs, report.Programs...)
		}
		programs = programs[n:]
	}
	return all, nil
}

// findings returns the lines about one program in the format of compilers.
func findings(p *api.Checked) (out []string) {
	say := func(line, column int, format string, args ...any) {
		at := p.Name
		for _, n := range []int{line, column} {
			if n > 0 {
				at += fmt.Sprintf(":%d", n)
			}
		}
		out = append(out, at+": "+fmt.Sprintf(format, args...))
	}
	if e := p.Error; e != nil {
		say(e.Line, e.Column, "%s: %s", e.Type, e.Message)
	}
	for _, i := range p.Imports {
		switch {
		case i.Forbidden:
			say(i.Line, 0, "import of %s is forbidden by the policy", i.Module)
		case i.Found != nil && !*i.Found:
			say(i.Line, 0, "the image has no module %s", i.Module)
		}
	}
	for _, u := range p.Undefined {
		say(u.Line, u.Column, "undefined name %s", u.Name)
	}
	return out
}

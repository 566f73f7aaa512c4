package languages

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// problems has a file for each language, in which "== NAME SHAPE KEY=VALUE … ==" begins a problem and "-- PART --" a part of it.
//
//go:embed problems/*.txt
var problems embed.FS

// The shapes of problems. A program of the first two is the concatenation of a prompt, its
// completion and a test in the same language; its exit code is the verdict. A program of the third
// shape reads and writes.
const (
	multiplE   = "multipl-e"
	humanEvalX = "humaneval-x"
	stdio      = "stdio"
)

// problem is one problem with its solutions.
type problem struct {
	name, shape  string
	language     string // of the catalogue
	main         string // name of the file; "": the language's default
	flags        []string
	prompt, test string
	cases        []job.Stdio
	solutions    []solution
}

// solution is a solution with its expected outcomes; a right one succeeds.
type solution struct {
	text string
	want []job.Outcome // any of them
}

// readProblems returns the problems of all languages, ordered by file and position.
func readProblems() ([]problem, error) {
	files, err := problems.ReadDir("problems")
	if err != nil {
		return nil, err
	}
	var out []problem
	for _, f := range files {
		text, err := problems.ReadFile("problems/" + f.Name())
		if err != nil {
			return nil, err
		}
		for _, section := range strings.Split("\n"+string(text), "\n== ")[1:] {
			p, err := parseProblem(strings.TrimSuffix(f.Name(), path.Ext(f.Name())), section)
			if err != nil {
				return nil, fmt.Errorf("%s: %.40q: %w", f.Name(), section, err)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

func parseProblem(lang, section string) (problem, error) {
	head, body, ok := strings.Cut(section, " ==\n")
	words := strings.Fields(head)
	if !ok || len(words) < 2 || !slices.Contains([]string{multiplE, humanEvalX, stdio}, words[1]) {
		return problem{}, fmt.Errorf("it has no head that names it and a shape")
	}
	p := problem{name: words[0], shape: words[1], language: lang}
	for _, w := range words[2:] {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "language":
			p.language = value
		case "main":
			p.main = value
		case "flags":
			p.flags = strings.Split(value, ",")
		default:
			return p, fmt.Errorf("%s is no setting of a problem", w)
		}
	}
	for _, part := range strings.Split("\n"+body, "\n-- ")[1:] {
		title, text, _ := strings.Cut(part+"\n", " --\n")
		if err := p.add(title, strings.TrimRight(text, "\n")+"\n"); err != nil {
			return p, err
		}
	}
	return p, nil
}

// add parses a part of the problem.
func (p *problem) add(title, text string) error {
	switch what, outcomes, _ := strings.Cut(title, " "); what {
	case "prompt":
		p.prompt = text
	case "test":
		p.test = text
	case "right":
		p.solutions = append(p.solutions, solution{text, []job.Outcome{job.Succeeded}})
	case "wrong":
		s := solution{text: text}
		for _, o := range strings.Fields(outcomes) {
			s.want = append(s.want, job.Outcome(o))
		}
		p.solutions = append(p.solutions, s)
	case "in":
		p.cases = append(p.cases, job.Stdio{Stdin: text})
	case "out":
		p.cases[len(p.cases)-1].Stdout = text
	default:
		return fmt.Errorf("%s is no part of a problem", title)
	}
	return nil
}

// program returns the program that judges a solution.
func (p *problem) program(s solution) job.Program {
	var how *job.Compile
	if p.flags != nil {
		how = &job.Compile{Flags: p.flags}
	}
	if p.shape == stdio {
		return job.Program{Tests: &job.Tests{Language: p.language, Code: s.text, Stdio: p.cases, Compile: how}}
	}
	code := &job.Code{Language: p.language, Source: p.prompt + s.text + p.test, Compile: how}
	if p.main != "" {
		code.Source, code.Main, code.Files = "", p.main, map[string]string{p.main: code.Source}
	}
	return job.Program{Code: code}
}

// memory returns the least memory in a policy for the language, or 256 MiB.
func (p *problem) memory() (job.Size, error) {
	l, err := language.Find(p.language)
	if err != nil {
		return 0, err
	}
	return max(l.Run.Memory, 256*job.MiB), nil
}

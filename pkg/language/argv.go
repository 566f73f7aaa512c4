package language

import (
	"path"
	"strings"
	"time"
)

// Where things are in a sandbox.
const (
	Dir = "/workspace"      // sources, by their relative paths; where compilers and programs begin
	Out = "/workspace/.out" // what is compiled; sources have no names that begin with a dot
)

// Python is the language of programs and solutions that need no catalogue.
const Python = "python"

// Limit is how long the step may take where nobody says.
func (s *Step) Limit() time.Duration {
	if s.Wall > 0 {
		return s.Wall
	}
	return 10 * time.Second
}

// Expand returns the arguments of a step for a program in these files, of which it begins with main.
func (l *Language) Expand(s *Step, main string, files []string) []string {
	var out []string
	for _, a := range s.Argv {
		if a == "{files}" {
			out = append(out, l.sources(main, files)...)
			continue
		}
		out = append(out, strings.NewReplacer("{main}", main, "{out}", Out).Replace(a))
	}
	return out
}

// sources are the files that are written in the language: all that end as main does.
func (l *Language) sources(main string, files []string) []string {
	var out []string
	for _, f := range files {
		if f == main || path.Ext(f) == path.Ext(main) {
			out = append(out, f)
		}
	}
	return out
}

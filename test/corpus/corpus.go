// Package corpus reads attack programs. The comment at the top of each describes the attack and its
// allowed outcomes.
package corpus

import (
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// Header returns the pairs in the comment at the top of a program, from lines like "// key: value".
// The comment argument is the beginning of such lines. A line without a value has an empty one.
func Header(source, comment string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(source) {
			text, ok := strings.CutPrefix(strings.TrimSpace(line), comment)
			if !ok {
				return
			}
			key, value, _ := strings.Cut(text, ": ")
			if !yield(key, value) {
				return
			}
		}
	}
}

// Outcomes parses a list like "failed|timed_out".
func Outcomes(list string) (out []job.Outcome) {
	for o := range strings.SplitSeq(list, "|") {
		out = append(out, job.Outcome(o))
	}
	return out
}

// Source is a program in a compiled language.
type Source struct {
	Name, Text string // Name is the file name
	Tries      string
	Language   *language.Language
	Outcomes   []job.Outcome
}

// Sources reads the programs of a directory with extensions of languages of the catalogue, *.c or
// *.cpp. It fails if a header lacks the attack or its outcomes, or has unknown keys, or if there
// are fewer programs than least.
func Sources(dir fs.FS, least int) (all []Source, err error) {
	names, err := fs.Glob(dir, "*.c*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s, err := read(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, s)
	}
	if len(all) < least {
		return nil, fmt.Errorf("there are %d programs, of %d", len(all), least)
	}
	return all, nil
}

func read(dir fs.FS, name string) (s Source, err error) {
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return s, err
	}
	s.Name, s.Text = name, string(text)
	if s.Language, err = language.Find(strings.TrimPrefix(path.Ext(name), ".")); err != nil {
		return s, err
	}
	for key, value := range Header(s.Text, "// ") {
		switch key {
		case "tries":
			s.Tries = value
		case "outcome":
			s.Outcomes = Outcomes(value)
		default:
			return s, fmt.Errorf("the header has an unknown line %q", key)
		}
	}
	if s.Tries == "" || len(s.Outcomes) == 0 {
		return s, fmt.Errorf("the header lacks tries or outcome")
	}
	return s, nil
}

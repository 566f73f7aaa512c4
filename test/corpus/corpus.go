// Package corpus reads the programs that attacks are made of: each says in the comment at its top what it tries and what may
// come of it.
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

// Header is the comment at the top of a program, as pairs of key and value from lines like "// key: value". Comment is what
// begins such a line. A line of it without a value has an empty one.
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

// Outcomes are those of a list like "failed|timed_out".
func Outcomes(list string) (out []job.Outcome) {
	for o := range strings.SplitSeq(list, "|") {
		out = append(out, job.Outcome(o))
	}
	return out
}

// Source is a program in a language that is compiled.
type Source struct {
	Name, Text string // Name is its file's
	Tries      string
	Language   *language.Language
	Outcomes   []job.Outcome
}

// Sources reads the programs of a directory whose names end like languages of the catalogue, *.c or *.cpp. It is an error if
// one does not say what it tries and what may come of it, or says anything else, or if there are fewer than least.
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

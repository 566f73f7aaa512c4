// Package language is the catalogue of programming languages: the names of their source files, and
// how to compile and run them. Images report which languages they have.
package language

import (
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Language is one row of the catalogue.
type Language struct {
	Name    string   // the name in programs, such as "cpp"
	Title   string   // display name: "C++"
	Aliases []string // alternative names in lower case: "c++"
	File    string   // the name of a single source file: "main.cpp"
	Endings []string // extensions of source files, including the one in File: ".cpp"
	Compile *Step    // nil: the source is run directly
	Run     Step

	scan     func(source string) unit // finds the declarations of a source; nil: the entry is the main file
	byPublic bool                     // sources are named after their public type

	Version []string // argv that prints the version in the first non-empty line
}

// Step is a command of a language's tool. It runs in the directory of the sources. Expand returns
// its arguments.
type Step struct {
	// Argv may have these placeholders:
	//
	//   - {main}: the entry file
	//   - {stem}: the entry file without its extension
	//   - {class}: the entry class
	//   - {files}: one argument for each source of the language, the main one last
	//   - {package}: the same for the sources in the main file's directory
	//   - {out}: the output directory of the compiler
	//   - {memory}: the sandbox's memory in MiB
	Argv []string
	Env  map[string]string // in addition to the policy's
	// The minimum requirements of the tool for any program. A policy below them gets an error.
	Memory    job.Size
	Processes int           // includes threads
	Wall      time.Duration // default time limit of a compilation; 0: ten seconds
}

// All returns every language by name. The caller owns the slice, but not its elements.
func All() []Language { return slices.Clone(catalogue) }

// Find returns a language by its name or an alias, ignoring case. The error lists the known names.
func Find(name string) (*Language, error) {
	wanted := strings.ToLower(strings.TrimSpace(name))
	for i := range catalogue {
		if l := &catalogue[i]; l.Name == wanted || slices.Contains(l.Aliases, wanted) {
			return l, nil
		}
	}
	return nil, job.Invalid("language", "there is no language %q; there are %s", job.Clip(name, 80), strings.Join(names(), ", "))
}

func names() []string {
	out := make([]string, len(catalogue))
	for i := range catalogue {
		out[i] = catalogue[i].Name
	}
	return out
}

// sorted returns the languages of all families by name.
func sorted(families ...[]Language) []Language {
	return slices.SortedFunc(slices.Values(slices.Concat(families...)), func(a, b Language) int { return strings.Compare(a.Name, b.Name) })
}

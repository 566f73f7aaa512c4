// Package language is the catalogue of programming languages: what a source file of each is called, and how it is
// compiled and run. Whether a language is there is for an image to say.
package language

import (
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Language is one row of the catalogue.
type Language struct {
	Name    string   // by which programs name it, such as "cpp"
	Title   string   // for people: "C++"
	Aliases []string // other names of it, in lower case: "c++"
	File    string   // what its source is called where a program has one: "main.cpp"
	Endings []string // of the names of its sources, the one of File among them: ".cpp"
	Compile *Step    // nil: what runs is the source
	Run     Step

	scan     func(source string) unit // what a source declares; nil: a program begins in its main file, whatever that declares
	byPublic bool                     // a source has the name of its public type

	Version []string // argv that prints a version in the first line that is not empty
}

// Step is how a tool of a language is started, in the directory that holds the sources. Expand makes arguments of it.
type Step struct {
	// Argv may have the placeholders {main}, the file that a program begins with, {stem}, the same without its ending, and
	// {class}, the class that it begins in; {files}, an argument of its own for each source of the language, the main one last, and
	// {package}, the same of those that are in its directory; {out}, the directory for what is compiled; {memory}, the
	// sandbox's memory in MiB.
	Argv []string
	Env  map[string]string // besides the policy's
	// The least that the tool works with, whatever the program does; a policy that gives less is an error that says so.
	Memory    job.Size
	Processes int           // threads count
	Wall      time.Duration // a default for compiling; 0: ten seconds
}

// All returns every language, by name. The slice is the caller's, what it holds is not.
func All() []Language { return slices.Clone(catalogue) }

// Find returns a language by its name or an alias of it, in any case. The error lists what there is.
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

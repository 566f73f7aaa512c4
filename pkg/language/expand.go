package language

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Program is what a step is started for: the values of its placeholders.
type Program struct {
	Main   string   // the file that it begins with, relative to the sources' directory
	Class  string   // the class that it begins in; empty: that of Main, with dots for slashes
	Files  []string // all of its files, likewise, of whatever kind
	Out    string   // the directory for what is compiled, without a slash at its end
	Memory job.Size // of the sandbox in which the step runs
}

// Expand returns the arguments that a step of the language is started with, which are the caller's.
func (l *Language) Expand(s *Step, p Program) []string {
	stem := strings.TrimSuffix(p.Main, path.Ext(p.Main))
	class := cmp.Or(p.Class, strings.ReplaceAll(stem, "/", "."))
	replace := strings.NewReplacer("{main}", argument(p.Main), "{stem}", stem, "{class}", class, "{out}", p.Out,
		"{memory}", strconv.FormatInt(max(1, int64(p.Memory/job.MiB)), 10))
	var out []string
	for _, a := range s.Argv {
		switch a {
		case "{files}":
			out = append(out, l.sources(p, func(string) bool { return true })...)
		case "{package}":
			out = append(out, l.sources(p, func(file string) bool { return path.Dir(file) == path.Dir(p.Main) })...)
		default:
			out = append(out, replace.Replace(a))
		}
	}
	return out
}

// sources returns the sources of the language that are wanted, the main one last: some compilers take them in the order in
// which they need each other.
func (l *Language) sources(p Program, wanted func(file string) bool) []string {
	var out []string
	for _, file := range p.Files {
		if file != p.Main && slices.Contains(l.Endings, path.Ext(file)) && wanted(file) {
			out = append(out, argument(file))
		}
	}
	slices.Sort(out)
	return append(out, argument(p.Main))
}

// argument is a file as an argument, which no tool takes for an option or a file of options.
func argument(file string) string {
	if strings.HasPrefix(file, "-") || strings.HasPrefix(file, "@") || strings.HasPrefix(file, "+") {
		return "./" + file
	}
	return file
}

package language

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Program holds the values of the placeholders of a step.
type Program struct {
	Main   string   // the entry file, relative to the sources' directory
	Class  string   // the entry class; empty: Main with dots for slashes
	Files  []string // all files, relative to the same directory, of any kind
	Out    string   // the output directory of the compiler, without a trailing slash
	Memory job.Size // of the sandbox of this step
}

// Expand returns the arguments for a step of the language. The caller owns the slice.
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

// sources returns the wanted sources of the language, the main one last, because some compilers
// need the order of dependencies.
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

// argument returns a file as an argument that no tool mistakes for an option or a file of options.
func argument(file string) string {
	if strings.HasPrefix(file, "-") || strings.HasPrefix(file, "@") || strings.HasPrefix(file, "+") {
		return "./" + file
	}
	return file
}

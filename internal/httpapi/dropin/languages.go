package dropin

import (
	"errors"
	"path"
	"regexp"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// find returns the language that a client names. Names of other servers that mean something else than a program in a
// language, such as a judge of their own, are not there.
func find(field, name string) (*language.Language, error) {
	l, err := language.Find(name)
	if bad := new(job.FieldError); errors.As(err, &bad) {
		return nil, &job.FieldError{Field: field, Problem: bad.Problem}
	}
	return l, err
}

// polyglot is the image that has every language of the catalogue.
const polyglot = "polyglot"

// imageOf is the image for a language: the one for all, if it is known to have it and the default one is not.
func (h *Handlers) imageOf(l *language.Language) string {
	if l.Name == language.Python || l.Name == "bash" {
		return job.DefaultImage
	}
	if _, there := h.Languages(job.DefaultImage)[l.Name]; there {
		return job.DefaultImage
	}
	if _, there := h.Languages(polyglot)[l.Name]; there {
		return polyglot
	}
	return job.DefaultImage // which is refused with what it has
}

// version is that of a language here, as the image for it says; 0.0.0 if that is not known.
func (h *Handlers) version(l *language.Language) string {
	if v := numbers.FindString(h.Languages(h.imageOf(l))[l.Name]); v != "" {
		return v
	}
	return "0.0.0"
}

// numbers finds a version in what a tool says of itself.
var numbers = regexp.MustCompile(`\d+(\.\d+)+`)

// has reports whether a version is one that a client of Piston asks for. Of a range the first number counts: there is one
// version of each language, and those of one first number run the same programs.
func has(version, wanted string) bool {
	asked := numbers.FindString(wanted)
	if asked == "" || version == "0.0.0" { // such as * and 3.x, or nobody knows
		asked, _, _ = strings.Cut(strings.TrimLeft(wanted, "^~>=v "), ".")
		if strings.Trim(asked, "0123456789") != "" || asked == "" || version == "0.0.0" {
			return true
		}
	}
	want, _, _ := strings.Cut(asked, ".")
	have, _, _ := strings.Cut(version, ".")
	return want == have
}

// program is what a worker is to run.
func (p *program) program() job.Program {
	code := &job.Code{Language: p.language.Name, Stdin: p.stdin, Args: p.args}
	if source, alone := p.files[p.language.File]; alone && len(p.files) == 1 {
		code.Source = source
	} else {
		code.Files, code.Main = p.files, p.main
	}
	if p.language.Compile != nil {
		code.Compile = &p.compile
	}
	return job.Program{Code: code}
}

// single makes the program one file, by the name that its language gives it.
func (p *program) single(field, source string) error {
	if source == "" {
		source = "\n" // a program that does nothing, elsewhere
	}
	if err := checkSource(field, source); err != nil {
		return err
	}
	if _, taken := p.inputs[p.language.File]; taken {
		return job.Invalid("files", "%s is the name of the program itself; give the file another", p.language.File)
	}
	p.main, p.files = p.language.File, map[string]string{p.language.File: source}
	return nil
}

// named returns the name of a main file as compilers need it: with the extension of its language.
func named(l *language.Language, name string) string {
	if path.Ext(name) == path.Ext(l.File) {
		return name
	}
	return path.Join(path.Dir(name), l.File)
}

// least has the limits of a request give a language what it needs to start at all.
func (p *program) least() {
	p.atLeast, p.processes = p.language.Run.Memory, p.language.Run.Processes
	if c := p.language.Compile; c != nil && p.compile.Memory > 0 {
		p.compile.Memory = max(p.compile.Memory, c.Memory)
	}
}

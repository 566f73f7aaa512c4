package dropin

import (
	"errors"
	"path"
	"regexp"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// find returns the language with a client's name for it. It does not find names with another meaning on other servers,
// such as built-in judges.
func find(field, name string) (*language.Language, error) {
	l, err := language.Find(name)
	if bad := new(job.FieldError); errors.As(err, &bad) {
		return nil, &job.FieldError{Field: field, Problem: bad.Problem}
	}
	return l, err
}

// polyglot is the image with every language of the catalogue.
const polyglot = "polyglot"

// imageOf returns the image for a language: polyglot if only that is known to have it, else the default image.
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
	return job.DefaultImage // the worker's error lists the image's languages
}

// version returns the version of a language in its image, or 0.0.0 if it is unknown.
func (h *Handlers) version(l *language.Language) string {
	if v := numbers.FindString(h.Languages(h.imageOf(l))[l.Name]); v != "" {
		return v
	}
	return "0.0.0"
}

// numbers matches a version in the output of a tool.
var numbers = regexp.MustCompile(`\d+(\.\d+)+`)

// has reports whether version satisfies a Piston client's request. Only the major version counts, also in ranges: there
// is one version of each language, and versions with the same major version run the same programs.
func has(version, wanted string) bool {
	asked := numbers.FindString(wanted)
	if asked == "" || version == "0.0.0" { // such as * and 3.x, or an unknown version
		asked, _, _ = strings.Cut(strings.TrimLeft(wanted, "^~>=v "), ".")
		if strings.Trim(asked, "0123456789") != "" || asked == "" || version == "0.0.0" {
			return true
		}
	}
	want, _, _ := strings.Cut(asked, ".")
	have, _, _ := strings.Cut(version, ".")
	return want == have
}

// program returns the program for the job.
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

// single sets the program's only source, under the language's usual file name.
func (p *program) single(field, source string) error {
	if source == "" {
		source = "\n" // other servers run an empty program without an error
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

// named returns the name of a main file with the extension that the language's compiler requires.
func named(l *language.Language, name string) string {
	if path.Ext(name) == path.Ext(l.File) {
		return name
	}
	return path.Join(path.Dir(name), l.File)
}

// raiseLimits raises limits to the minimum that the language needs to start.
func (p *program) raiseLimits() {
	p.atLeast, p.processes = p.language.Run.Memory, p.language.Run.Processes
	if c := p.language.Compile; c != nil && p.compile.Memory > 0 {
		p.compile.Memory = max(p.compile.Memory, c.Memory)
	}
}

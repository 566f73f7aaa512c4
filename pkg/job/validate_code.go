package job

import (
	"path"
	"strconv"
	"strings"
)

func (c *Code) validate(at string) error {
	if p := badName(c.Language, MaxName); p != "" {
		return Invalid(at+".language", "%s; the catalogue is at GET /v1/languages", p)
	}
	if (c.Source != "") == (len(c.Files) > 0) {
		return Invalid(at, "must have source or files: exactly one of them, and not empty")
	}
	if c.Source != "" {
		if p := badCode(c.Source); p != "" {
			return Invalid(at+".source", "%s", p)
		}
	}
	if err := validateSources(at+".files", c.Files); err != nil {
		return err
	}
	if _, ok := c.Files[c.Main]; c.Main != "" && !ok {
		return Invalid(at+".main", "%q is not one of files", Clip(c.Main, 80))
	}
	if p := badText(c.Stdin, int(MaxSpec)); p != "" {
		return Invalid(at+".stdin", "%s; send other bytes as a file", p)
	}
	if err := validateArgs(at+".args", c.Args); err != nil {
		return err
	}
	return c.Compile.validate(at + ".compile")
}

// validateLanguage checks the parts of tests for languages of the catalogue. The caller checks that
// the language exists, and that other languages than python use stdio cases only.
func (t *Tests) validateLanguage(at string) error {
	if p := badName(t.Language, MaxName); p != "" && t.Language != "" {
		return Invalid(at+".language", "%s", p)
	}
	if t.Files == nil && t.Compile == nil {
		return nil
	}
	if t.Files != nil && t.Code != "" {
		return Invalid(at+".files", "excludes code; give one of the two")
	}
	if t.Files != nil && len(t.Files) == 0 {
		return Invalid(at+".files", "must not be empty")
	}
	if len(t.Cases) > 0 || t.Check != "" || t.Setup != "" {
		return Invalid(at, "has files or compile, which are for stdio alone: leave cases, check and setup out, or give the solution as code")
	}
	if err := validateSources(at+".files", t.Files); err != nil {
		return err
	}
	return t.Compile.validate(at + ".compile")
}

// validateSources checks the sources of a program by their paths beneath the working directory.
func validateSources(at string, files map[string]string) error {
	if len(files) > MaxFiles {
		return Invalid(at, "has %d files; at most %d", len(files), MaxFiles)
	}
	return each(at, files, func(p, source string) string {
		if bad := badSourcePath(p); bad != "" {
			return "the path " + bad
		}
		for dir := path.Dir(p); dir != "." && len(files) > 1; dir = path.Dir(dir) {
			if _, ok := files[dir]; ok {
				return "lies below " + dir + ", which is also a file"
			}
		}
		return badText(source, int(MaxCode))
	})
}

// badSourcePath checks a relative path. A leading dot is reserved for us; a leading dash is an
// option of a compiler.
func badSourcePath(p string) string {
	switch {
	case p == "":
		return "must not be empty"
	case p[0] == '/':
		return "must be relative, such as " + path.Base(p) + ": it lies beneath /workspace"
	case p[0] == '-' || p[0] == '@':
		return "must not begin with " + p[:1] + ": a compiler would take it for an option"
	case p[0] == '.':
		return "must not begin with a dot: neither climb, nor be hidden"
	}
	return badPath("/" + p)
}

func validateArgs(at string, args []string) error {
	if len(args) > MaxArgs {
		return Invalid(at, "has %d arguments; at most %d", len(args), MaxArgs)
	}
	for i, a := range args {
		if p := badText(a, int(MaxArg)); p != "" {
			return Invalid(at+"["+strconv.Itoa(i)+"]", "%s", p)
		}
	}
	return nil
}

// validate checks compile settings, which are optional.
func (c *Compile) validate(at string) error {
	if c == nil {
		return nil
	}
	if err := validateArgs(at+".flags", c.Flags); err != nil {
		return err
	}
	if n := len(strings.Join(c.Flags, " ")); n > int(MaxFlags) {
		return Invalid(at+".flags", "are %d bytes together; at most %s", n, MaxFlags)
	}
	if c.Wall < 0 || c.Wall > MaxWall {
		return Invalid(at+".wall", "must be 0s to %s", MaxWall)
	}
	if c.Memory < 0 || c.Memory > 0 && c.Memory < MinCaseMemory {
		return Invalid(at+".memory", "must be at least %s", MinCaseMemory)
	}
	return nil
}

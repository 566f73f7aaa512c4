package admit

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
)

// inLanguage checks a program in a language of the catalogue and completes its spec: the canonical language name, the
// main file and the compiler's settings. Python tests that need no catalogue name no language afterwards. It returns
// a *job.FieldError, also wrapped in job.ErrRefused, or a *policy.Refusal of the tenant's ceiling.
func inLanguage(spec *job.Spec, p *policy.Policy, c *policy.Ceiling) error {
	switch {
	case spec.Program.Code != nil:
		code := spec.Program.Code
		l, err := findLanguage("program.code.language", code.Language)
		if err != nil {
			return err
		}
		code.Language = l.Name
		if code.Main, err = mainOf("program.code", code.Main, code.Files, l); err != nil {
			return err
		}
		if code.Compile, err = howToCompile("program.code.compile", l, code.Compile, p, c); err != nil {
			return err
		}
		return fits(spec, code, l, p)
	case spec.Program.Tests != nil:
		return testsInLanguage(spec, p, c)
	}
	return nil
}

func testsInLanguage(spec *job.Spec, p *policy.Policy, c *policy.Ceiling) error {
	const at = "program.tests"
	t := spec.Program.Tests
	if err := checkerInLanguage(t, p, c); err != nil {
		return err
	}
	if t.Language == "" && t.Files == nil && t.Compile == nil {
		return nil
	}
	name := t.Language
	if name == "" {
		name = language.Python
	}
	l, err := findLanguage(at+".language", name)
	if err != nil {
		return err
	}
	t.Language = l.Name
	if l.Name == language.Python && t.Files == nil {
		t.Language = ""
	}
	if l.Name != language.Python && (len(t.Cases) > 0 || t.Check != "" || t.Setup != "") {
		return job.Invalid(at+".language", "a solution in %s is graded by stdio alone: leave cases, check and setup out", l.Title)
	}
	if _, err = mainOf(at, "", t.Files, l); err != nil {
		return err
	}
	if t.Compile, err = howToCompile(at+".compile", l, t.Compile, p, c); err != nil || t.Language == "" {
		return err
	}
	for i, s := range t.Stdio {
		if s.Memory > 0 && s.Memory < l.Run.Memory {
			return job.Invalid(fmt.Sprintf("%s.stdio[%d].memory", at, i), "%s runs in no less than %s", l.Title, l.Run.Memory)
		}
	}
	return fits(spec, spec.Program.InLanguage(), l, p)
}

// checkerInLanguage does the same for the code of a checker or interactor, and for the language names of multipliers.
func checkerInLanguage(t *job.Tests, p *policy.Policy, c *policy.Ceiling) error {
	const at = "program.tests"
	if t.Check != "" && p.RestrictHelpers && uncheckedImports(p) {
		return restricted(at+".check", "its imports are not checked, and the policy has import rules")
	}
	limits := make(map[string]job.Multiplier, len(t.Limits))
	for _, name := range slices.Sorted(maps.Keys(t.Limits)) {
		l, err := findLanguage(at+".limits", name)
		if err != nil {
			return err
		}
		if _, twice := limits[l.Name]; twice {
			return job.Invalid(at+".limits", "has %s twice, by two of its names", l.Name)
		}
		limits[l.Name] = t.Limits[name]
	}
	if len(limits) > 0 {
		t.Limits = limits
	}
	for field, k := range map[string]*job.Checker{at + ".checker": t.Checker, at + ".interactor": t.Interactor} { // one is nil
		if k == nil {
			continue
		}
		if err := checkerCode(field+".code", k.Code, p, c); err != nil {
			return err
		}
		if err := checkerLimits(field, k, p, c); err != nil {
			return err
		}
	}
	return nil
}

func checkerCode(field string, code *job.Code, p *policy.Policy, c *policy.Ceiling) error {
	if code == nil {
		return nil
	}
	l, err := findLanguage(field+".language", code.Language)
	if err != nil {
		return err
	}
	code.Language = l.Name
	if code.Main, err = mainOf(field, code.Main, code.Files, l); err != nil {
		return err
	}
	code.Compile, err = howToCompile(field+".compile", l, code.Compile, p, c)
	return err
}

// checkerLimits sets the limits that a checker leaves out: the larger of the policy's and the defaults, within the
// ceiling. A solution should not be able to make its checker run out of memory.
func checkerLimits(field string, k *job.Checker, p *policy.Policy, c *policy.Ceiling) error {
	if p.RestrictHelpers {
		if uncheckedImports(p) {
			return restricted(field, "its imports are not checked, and the policy has import rules")
		}
		if k.Wall > p.Wall {
			return restricted(field+".wall", "%s is more than the %s of policy.wall", k.Wall, p.Wall)
		}
		if k.Memory > p.Memory {
			return restricted(field+".memory", "%s is more than the %s of policy.memory", k.Memory, p.Memory)
		}
	}
	if k.Wall == 0 {
		k.Wall = most(max(p.Wall, job.DefaultCheckerWall), c.Wall)
	}
	var least job.Size
	if k.Code != nil {
		l, err := language.Find(k.Code.Language)
		if err != nil {
			return err
		}
		least = l.Run.Memory
	}
	if k.Memory == 0 {
		k.Memory = most(max(p.Memory, job.DefaultCheckerMemory, least), c.Memory)
	}
	if k.Memory < least {
		return job.Invalid(field+".memory", "%s is too little for %s, which runs in no less than %s", k.Memory, k.Code.Language, least)
	}
	return nil
}

// uncheckedImports reports whether a policy enforces import rules, since the imports of helpers are not checked.
func uncheckedImports(p *policy.Policy) bool { return p.Imports.Any() && p.Enforce == policy.Strict }

// helpersCeiling returns the ceiling of checkers, interactors and compilers: the tenant's, lowered to the policy if
// that restricts helpers.
func helpersCeiling(p *policy.Policy, c *policy.Ceiling) *policy.Ceiling {
	if !p.RestrictHelpers {
		return c
	}
	low := *c
	low.Wall, low.Memory, low.Processes = most(p.Wall, c.Wall), most(p.Memory, c.Memory), p.Processes
	return &low
}

// restricted returns a job.ErrRefused for a helper that exceeds the policy to which a key is restricted.
func restricted(field, format string, args ...any) error {
	return fmt.Errorf("%w: %w", job.ErrRefused, job.Invalid(field, format+", to which this key is restricted", args...))
}

// compilable returns job.ErrRefused for a compiler that exceeds the policy of a restricted key.
func compilable(at string, how *job.Compile, l *language.Language, p *policy.Policy) error {
	switch {
	case !p.RestrictHelpers:
	case how.Wall > p.Wall:
		return restricted(at+".wall", "%s is more than the %s of policy.wall", how.Wall, p.Wall)
	case how.Memory > p.Memory:
		return restricted(at+".memory", "%s is more than the %s of policy.memory", how.Memory, p.Memory)
	case l.Compile.Memory > p.Memory:
		return restricted(at+".memory", "compiling %s needs at least %s, which is more than the %s of policy.memory", l.Title, l.Compile.Memory, p.Memory)
	case l.Compile.Processes > p.Processes:
		return restricted("policy.processes", "compiling %s needs %d processes, which is more than the %d of policy.processes", l.Title, l.Compile.Processes, p.Processes)
	case !p.Subprocesses:
		return restricted("policy.subprocesses", "the compiler of %s starts others, which policy.subprocesses forbids", l.Title)
	}
	return nil
}

// inImage returns a *job.FieldError if the job's image is known to lack a language of the program.
func (in *Intake) inImage(spec *job.Spec) error {
	for field, name := range languagesOf(&spec.Program) {
		if key := spec.Image + "\n" + name; in.admitter.Images != nil && !in.languages.has(key) {
			if has, lacks := in.admitter.Images.Lacks(spec.Image, name); lacks {
				return in.lacking(field, name, spec.Image, has)
			}
			in.languages.add(key)
		}
	}
	return nil
}

// languagesOf yields the fields of a program that name a language, after inLanguage.
func languagesOf(p *job.Program) iter.Seq2[string, string] {
	return func(yield func(field, name string) bool) {
		if code := p.Code; code != nil {
			yield("program.code.language", code.Language)
		}
		t := p.Tests
		if t == nil || t.Language != "" && !yield("program.tests.language", t.Language) {
			return
		}
		if k := t.Checker; k != nil && k.Code != nil && !yield("program.tests.checker.code.language", k.Code.Language) {
			return
		}
		if k := t.Interactor; k != nil && k.Code != nil {
			yield("program.tests.interactor.code.language", k.Code.Language)
		}
	}
}

// lacking returns the error for a missing language. It names the languages of the image, and the images with the
// language.
func (in *Intake) lacking(field, name, image string, has []string) error {
	advice := "no known image of this fleet has it"
	if others := in.admitter.Images.With(name); len(others) > 0 {
		advice = "name an image that has it: " + strings.Join(others, ", ")
	}
	return job.Invalid(field, "the image %s has no %s, but %s; %s", image, name, cmp.Or(strings.Join(has, ", "), "no language of the catalogue"), advice)
}

func findLanguage(at, name string) (*language.Language, error) {
	l, err := language.Find(name)
	if bad := new(job.FieldError); errors.As(err, &bad) {
		return nil, &job.FieldError{Field: at, Problem: bad.Problem}
	}
	return l, err
}

// mainOf returns the main file of a program with several files. Without files it returns main.
func mainOf(at, main string, files map[string]string, l *language.Language) (string, error) {
	if len(files) == 0 || main != "" {
		return main, nil
	}
	main = l.MainOf(files)
	if _, ok := files[main]; !ok {
		return "", job.Invalid(at+".files", "has no %s, with which a program in %s begins", l.File, l.Title)
	}
	return main, nil
}

// howToCompile returns the settings of the compiler within the tenant's ceiling; nil if the language is not compiled.
func howToCompile(at string, l *language.Language, asked *job.Compile, p *policy.Policy, c *policy.Ceiling) (*job.Compile, error) {
	if l.Compile == nil {
		if asked != nil {
			return nil, job.Invalid(at, "%s is not compiled: leave it out", l.Title)
		}
		return nil, nil
	}
	var how job.Compile
	if asked != nil {
		how = *asked
	}
	if how.Memory > 0 && how.Memory < l.Compile.Memory {
		return nil, job.Invalid(at+".memory", "compiling %s needs at least %s", l.Title, l.Compile.Memory)
	}
	if err := compilable(at, &how, l, p); err != nil {
		return nil, err
	}
	if err := belowCeiling(at, &how, l, c); err != nil {
		return nil, err
	}
	if how.Wall == 0 {
		how.Wall = job.Duration(l.Compile.Limit())
	}
	if how.Memory == 0 {
		how.Memory = max(l.Compile.Memory, p.Memory)
	}
	how.Wall, how.Memory = most(how.Wall, c.Wall), most(how.Memory, c.Memory)
	return &how, nil
}

// belowCeiling returns a *policy.Refusal if requested limits are above the ceiling, unless the ceiling lowers them,
// or if the compiler needs more than the ceiling.
func belowCeiling(at string, asked *job.Compile, l *language.Language, c *policy.Ceiling) error {
	var over []*job.FieldError
	refuse := func(field, format string, args ...any) {
		over = append(over, &job.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if c.Above != policy.Lower {
		if most(asked.Wall, c.Wall) != asked.Wall {
			refuse(at+".wall", "%s is above the ceiling of %s", asked.Wall, c.Wall)
		}
		if most(asked.Memory, c.Memory) != asked.Memory {
			refuse(at+".memory", "%s is above the ceiling of %s", asked.Memory, c.Memory)
		}
	}
	if c.Memory > 0 && l.Compile.Memory > c.Memory {
		refuse(at+".memory", "compiling %s needs at least %s, which is above the ceiling of %s", l.Title, l.Compile.Memory, c.Memory)
	}
	if c.Processes > 0 && l.Compile.Processes > c.Processes {
		refuse("policy.processes", "compiling %s needs %d processes, which is above the ceiling of %d", l.Title, l.Compile.Processes, c.Processes)
	}
	if len(over) > 0 {
		return &policy.Refusal{Fields: over}
	}
	return nil
}

// most returns v, or the ceiling if there is one and v is above it.
func most[T job.Size | job.Duration](v, ceiling T) T {
	if ceiling > 0 {
		return min(v, ceiling)
	}
	return v
}

// fits checks that the policy meets the needs of the language, and that the job's files do not collide with the sources.
func fits(spec *job.Spec, code *job.Code, l *language.Language, p *policy.Policy) error {
	if !slices.Contains(p.Write, language.Dir) {
		return job.Invalid("policy.write", "must have %s, where the sources of a program in %s lie", language.Dir, l.Title)
	}
	if p.Memory < l.Run.Memory {
		return job.Invalid("policy.memory", "%s is too little: %s needs at least %s for any program", p.Memory, l.Title, l.Run.Memory)
	}
	if p.Processes < l.Run.Processes {
		return job.Invalid("policy.processes", "%d are too few: %s needs at least %d processes and threads for any program", p.Processes, l.Title, l.Run.Processes)
	}
	return apart(spec.Files, code.Paths(l.File))
}

// apart rejects job files at the paths of the sources or the compiled output.
func apart(files map[string]job.File, sources []string) error {
	taken := map[string]bool{language.Out: true}
	for _, s := range sources {
		taken[path.Join(language.Dir, s)] = true
	}
	for _, f := range slices.Sorted(maps.Keys(files)) {
		for dir := f; dir != "/" && dir != "."; dir = path.Dir(dir) {
			if taken[dir] {
				return job.Invalid(fileField(f), "lies at %s, which the program itself has", dir)
			}
		}
		for _, s := range slices.Sorted(maps.Keys(taken)) {
			if strings.HasPrefix(s, f+"/") {
				return job.Invalid(fileField(f), "is a file where the program has a directory, for %s", s)
			}
		}
	}
	return nil
}

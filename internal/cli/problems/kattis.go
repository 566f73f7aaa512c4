package problems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oasdiff/yaml"

	"github.com/assay-run/assay/pkg/job"
)

// kattisFile is the relevant part of a problem.yaml, in the old format and the 2023 format.
type kattisFile struct {
	Name       any    `json:"name"` // text, or text by language
	Type       any    `json:"type"`
	Validation string `json:"validation"`
	Flags      string `json:"validator_flags"`
	Limits     struct {
		Time       *float64 `json:"time_limit"` // seconds
		Memory     int64    `json:"memory"`     // MiB
		Validation float64  `json:"validation_time"`
		ValMemory  int64    `json:"validation_memory"`
	} `json:"limits"`
}

// kattis reads one package. os.Root confines it to its directory despite links.
type kattis struct {
	root   fs.FS
	file   kattisFile
	p      *Problem
	upload Upload
}

// Kattis reads the problem package in a directory.
func Kattis(ctx context.Context, dir string, upload Upload) (*Problem, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return read(ctx, root.FS(), filepath.Base(abs), upload)
}

// read reads the package in a file system. name is the default name of the problem.
func read(ctx context.Context, root fs.FS, name string, upload Upload) (*Problem, error) {
	k := &kattis{root: root, p: &Problem{}, upload: upload}
	raw, err := k.read("problem.yaml")
	if err != nil {
		return nil, fmt.Errorf("%s is no problem package: %w", name, err)
	}
	if _, err := yaml.Unmarshal(raw, &k.file, yaml.DecodeOpts{}); err != nil {
		return nil, fmt.Errorf("problem.yaml: %w", err)
	}
	k.p.Name = cmp.Or(nameOf(k.file.Name), name)
	k.p.Memory = job.Size(max(k.file.Limits.Memory, 0)) * job.MiB
	k.p.Tests.StopOnFailure = true
	for _, step := range []func(context.Context) error{k.cases, k.judging, k.submissions} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return k.p, k.p.finish(ctx, upload)
}

// mostFile is the largest file of a package that is read, in bytes.
const mostFile = 1 << 30

// read reads a regular file. Others are errors, because opening a pipe may block for ever.
func (k *kattis) read(name string) ([]byte, error) {
	st, err := fs.Stat(k.root, name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case st.Size() > mostFile:
		return nil, fmt.Errorf("%s has %d bytes: at most %d are read", name, st.Size(), mostFile)
	}
	return fs.ReadFile(k.root, name)
}

// nameOf returns the name of a problem: verbatim, in English, or in the first language.
func nameOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		if s, ok := v["en"].(string); ok {
			return s
		}
	}
	return ""
}

// cases reads data/sample and data/secret recursively.
func (k *kattis) cases(ctx context.Context) error {
	wall, err := k.time()
	if err != nil {
		return err
	}
	for _, dir := range []string{"data/sample", "data/secret"} {
		err := fs.WalkDir(k.root, dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && name == dir:
				return nil
			case err != nil || d.IsDir() || path.Ext(name) != ".in":
				return err
			}
			input, err := k.read(name)
			if err != nil {
				return err
			}
			answer, err := k.read(strings.TrimSuffix(name, ".in") + ".ans")
			if err != nil {
				return fmt.Errorf("%s has no answer: %w", name, err)
			}
			return k.p.add(ctx, strings.TrimSuffix(strings.TrimPrefix(name, "data/"), ".in"), input, answer, wall, k.upload)
		})
		if err != nil {
			return err
		}
	}
	if len(k.p.Tests.Stdio) == 0 {
		return errors.New("there are no cases: data/sample and data/secret have no *.in")
	}
	return nil
}

// time returns the time limit of a case.
func (k *kattis) time() (job.Duration, error) {
	at, seconds := "problem.yaml: limits.time_limit", k.file.Limits.Time
	if raw, err := k.read(".timelimit"); err == nil && seconds == nil {
		n, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
		if err != nil {
			return 0, fmt.Errorf(".timelimit: %w", err)
		}
		at, seconds = ".timelimit", &n
	}
	if seconds == nil {
		k.p.Notes = append(k.p.Notes, fmt.Sprintf("it names no time limit: a case has %s", defaultTime))
		return defaultTime, nil
	}
	return inSeconds(at, *seconds)
}

// flags returns the flags of the output validator, from the problem or its test data.
func (k *kattis) flags() ([]string, error) {
	flags, at := k.file.Flags, ""
	err := fs.WalkDir(k.root, "data", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(name) != "testdata.yaml" && path.Base(name) != "test_group.yaml" {
			return err
		}
		raw, err := k.read(name)
		if err != nil {
			return err
		}
		var group struct {
			Old string   `json:"output_validator_flags"`
			New []string `json:"output_validator_args"`
		}
		if _, err := yaml.Unmarshal(raw, &group, yaml.DecodeOpts{}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		own := cmp.Or(group.Old, strings.Join(group.New, " "))
		if own == "" || own == flags {
			return nil
		}
		if at != "" {
			return fmt.Errorf("%s and %s have other flags for the validator: groups with flags of their own are one problem each here", at, name)
		}
		flags, at = own, name
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return fields(flags), err
}

// judging sets how outputs are judged.
func (k *kattis) judging(context.Context) error {
	flags, err := k.flags()
	if err != nil {
		return err
	}
	kind := fmt.Sprint(k.file.Type, " ", k.file.Validation)
	if strings.Contains(kind, "multi-pass") || strings.Contains(kind, "submit-answer") {
		return fmt.Errorf("problems of type %s are not supported", strings.TrimSpace(kind))
	}
	code, err := k.validator()
	if err != nil {
		return err
	}
	if code == nil {
		if strings.Contains(kind, "custom") || strings.Contains(kind, "interactive") {
			return errors.New("it has an output validator, and output_validators has none")
		}
		return k.compare(flags)
	}
	c := &job.Checker{Protocol: job.Kattis, Code: code, Flags: flags}
	if s := k.file.Limits.Validation; s > 0 && s <= 3600 {
		c.Wall = job.Duration(s * float64(time.Second))
	}
	if m := k.file.Limits.ValMemory; m > 0 {
		c.Memory = max(job.Size(m)*job.MiB, job.MinCaseMemory)
	}
	if strings.Contains(kind, "interactive") {
		k.p.Tests.Interactor = c
	} else {
		k.p.Tests.Checker = c
	}
	return nil
}

// compare implements the default validator of Kattis: it compares words, ignoring case, unless
// flags change that.
func (k *kattis) compare(flags []string) error {
	how := job.Stdio{Compare: job.CompareTokens, IgnoreCase: true}
	for i := 0; i < len(flags); i++ {
		number := func(to *float64) (err error) {
			if i++; i == len(flags) {
				return fmt.Errorf("the validator's flag %s needs a number", flags[i-1])
			}
			how.Compare = job.CompareFloats
			if *to, err = strconv.ParseFloat(flags[i], 64); err != nil {
				err = fmt.Errorf("the validator's flag %s: %w", flags[i-1], err)
			}
			return err
		}
		var err error
		switch flags[i] {
		case "case_sensitive":
			how.IgnoreCase = false
		case "space_change_sensitive":
			how.Compare = job.CompareExact
		case "float_tolerance":
			err = number(&how.AbsoluteTolerance)
			how.RelativeTolerance = how.AbsoluteTolerance
		case "float_absolute_tolerance":
			err = number(&how.AbsoluteTolerance)
		case "float_relative_tolerance":
			err = number(&how.RelativeTolerance)
		default:
			err = fmt.Errorf("the default validator has no flag %.80q", flags[i])
		}
		if err != nil {
			return err
		}
	}
	if how.Compare == job.CompareExact && how.IgnoreCase {
		how.Compare, k.p.Notes = job.CompareWhitespace, append(k.p.Notes, "spaces count, and case does not: lines are compared, but for blanks at their ends")
	}
	for i := range k.p.Tests.Stdio {
		s := &k.p.Tests.Stdio[i]
		s.Compare, s.IgnoreCase, s.AbsoluteTolerance, s.RelativeTolerance = how.Compare, how.IgnoreCase, how.AbsoluteTolerance, how.RelativeTolerance
	}
	return nil
}

// validator returns the output validator, or nil.
func (k *kattis) validator() (*job.Code, error) {
	for _, dir := range []string{"output_validators", "output_validator"} {
		entries, err := fs.ReadDir(k.root, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
		if dir == "output_validators" && len(entries) == 1 && entries[0].IsDir() {
			dir = path.Join(dir, entries[0].Name())
		}
		code, err := k.code(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		return code, nil
	}
	return nil, nil
}

// code returns the program in a directory.
func (k *kattis) code(dir string) (*job.Code, error) {
	files, err := k.sources(dir)
	if err != nil {
		return nil, err
	}
	c := &job.Code{Files: files}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "build" || name == "run" {
			return nil, errors.New("it has its own build script, which is not supported")
		}
		l := languageOf(name)
		if l == "" || strings.HasSuffix(name, ".h") {
			continue
		}
		if c.Language != "" && c.Language != l {
			return nil, fmt.Errorf("it is in %s and %s at once", c.Language, l)
		}
		if c.Language = l; c.Main == "" || len(name) < len(c.Main) || len(name) == len(c.Main) && name < c.Main {
			c.Main = name
		}
	}
	if c.Language == "" {
		return nil, errors.New("it contains no program in a supported language")
	}
	for name := range files {
		if base := strings.TrimSuffix(path.Base(name), path.Ext(name)); languageOf(name) == c.Language && (base == "main" || base == "validate" || base == "validator") {
			c.Main = name
		}
	}
	return c, nil
}

// sources returns the files of a directory as text.
func (k *kattis) sources(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(k.root, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(name, dir+"/")
		if strings.HasPrefix(path.Base(rel), ".") {
			return nil
		}
		raw, err := k.read(name)
		if err == nil {
			files[rel] = string(raw)
		}
		return err
	})
	return files, err
}

// submissions reads the included solutions.
func (k *kattis) submissions(context.Context) error {
	groups, err := fs.ReadDir(k.root, "submissions")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range groups {
		if !g.IsDir() {
			continue
		}
		entries, err := fs.ReadDir(k.root, path.Join("submissions", g.Name()))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := k.submission(g.Name(), e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *kattis) submission(expected string, e fs.DirEntry) error {
	at := path.Join("submissions", expected, e.Name())
	s := Solution{Name: expected + "/" + e.Name(), Expected: expected}
	if e.IsDir() {
		code, err := k.code(at)
		if err != nil {
			k.p.Notes = append(k.p.Notes, fmt.Sprintf("%s is left out: %v", at, err))
			return nil
		}
		s.Language, s.Files = code.Language, code.Files
		k.p.Solutions = append(k.p.Solutions, s)
		return nil
	}
	if s.Language = languageOf(e.Name()); s.Language == "" {
		k.p.Notes = append(k.p.Notes, at+" is left out: it is in no language of the catalogue")
		return nil
	}
	raw, err := k.read(at)
	s.Source = string(raw)
	k.p.Solutions = append(k.p.Solutions, s)
	return err
}

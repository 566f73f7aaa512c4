package admit_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

func admitted(t *testing.T, raw string) job.Spec {
	t.Helper()
	a := withResultCache(t)
	j, err := a.Job(context.Background(), "acme", "", []byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	var s job.Spec
	if err := json.Unmarshal(j.Spec, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestProgramsInLanguages checks that admission completes a spec from the catalogue.
func TestProgramsInLanguages(t *testing.T) {
	t.Parallel()
	got := admitted(t, `{"program":{"code":{"language":"C++","files":{"main.cpp":"1","b/c.cpp":""},"compile":{"flags":["-O0"]}}}}`).Program.Code
	if got.Language != "cpp" || got.Main != "main.cpp" || got.Compile.Memory == 0 || got.Compile.Wall == 0 {
		t.Errorf("%+v, %+v", got, got.Compile)
	}
	if diff := cmp.Diff([]string{"-O0"}, got.Compile.Flags); diff != "" {
		t.Error(diff)
	}
	if got := admitted(t, `{"program":{"code":{"language":"bash","source":"echo"}}}`).Program.Code; got.Compile != nil {
		t.Errorf("bash is compiled: %+v", got.Compile)
	}
	if got := admitted(t, `{"program":{"tests":{"language":"c++","code":"1","stdio":[{"argv":["x"]}]}}}`).Program.Tests; got.Language != "cpp" || got.Compile == nil {
		t.Errorf("%+v", got)
	}
	if got := admitted(t, `{"program":{"tests":{"language":"python3","code":"1","function":"f","cases":[{}]}}}`).Program.Tests; got.Language != "" {
		t.Errorf("python names the language %q", got.Language)
	}
	if got := admitted(t, `{"program":{"tests":{"files":{"main.py":"1"},"stdio":[{}]}}}`).Program.Tests; got.Language != "python" {
		t.Errorf("files are of %q", got.Language)
	}
}

func TestProgramsThatLanguagesRefuse(t *testing.T) {
	t.Parallel()
	a := withResultCache(t)
	for in, want := range map[string]string{
		`"program":{"code":{"language":"cobol","source":"1"}}`:                                                         `program.code.language: there is no language "cobol"; there are `,
		`"program":{"code":{"language":"cpp","files":{"a.cpp":"1"}}}`:                                                  `program.code.files: has no main.cpp, with which a program in C++ begins`,
		`"program":{"code":{"language":"bash","source":"1","compile":{"flags":["-x"]}}}`:                               `program.code.compile: Bash is not compiled: leave it out`,
		`"program":{"code":{"language":"cpp","source":"1","compile":{"memory":"16Mi"}}}`:                               `program.code.compile.memory: compiling C++ needs at least `,
		`"program":{"code":{"language":"cpp","source":"1"}},"policy":{"write":["/tmp"]}`:                               `policy.write: must have /workspace`,
		`"program":{"code":{"language":"bash","source":"1"}},"policy":{"imports":{"deny":["os"]}}`:                     `policy.imports: only the imports of python code are checked`,
		`"program":{"code":{"language":"cpp","source":"1"}},"files":{"/workspace/main.cpp":{"text":"2"}}`:              `files["/workspace/main.cpp"]: lies at /workspace/main.cpp, which the program itself has`,
		`"program":{"code":{"language":"cpp","source":"1"}},"files":{"/workspace/.out/main":{"text":"2"}}`:             `files["/workspace/.out/main"]: lies at /workspace/.out, which the program itself has`,
		`"program":{"code":{"language":"cpp","files":{"main.cpp":"","a/b":""}}},"files":{"/workspace/a":{"text":"2"}}`: `files["/workspace/a"]: is a file where the program has a directory`,
		`"program":{"tests":{"language":"cobol","code":"1","stdio":[{}]}}`:                                             `program.tests.language: there is no language "cobol"`,
		`"program":{"tests":{"language":"cpp","code":"1","function":"f","cases":[{}]}}`:                                `program.tests.language: a solution in C++ is graded by stdio alone`,
		`"program":{"tests":{"language":"cpp","code":"1","function":"f","check":"1"}}`:                                 `program.tests.language: a solution in C++ is graded by stdio alone`,
		`"program":{"tests":{"language":"cpp","code":"1","setup":"1","stdio":[{}]}}`:                                   `program.tests.language: a solution in C++ is graded by stdio alone`,
		`"program":{"tests":{"language":"cpp","code":"1","stdio":[{}]}},"policy":{"imports":{"deny":["os"]}}`:          `policy.imports: only the imports of python code are checked`,
		`"program":{"tests":{"files":{"a.py":"1"},"stdio":[{}]}}`:                                                      `program.tests.files: has no main.py`,
		`"program":{"tests":{"code":"1","compile":{},"stdio":[{}]}}`:                                                   `program.tests.compile: Python is not compiled`,
	} {
		_, err := a.Job(context.Background(), "acme", "", []byte("{"+in+"}"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n got: %v\nwant: %s", in, err, want)
		}
	}
}

// TestCheckersInLanguages checks the same for the code of a checker, and for the languages of multipliers.
func TestCheckersInLanguages(t *testing.T) {
	t.Parallel()
	const tests = `{"program":{"tests":{"code":"1","stdio":[{}],`
	got := admitted(t, tests+`"checker":{"code":{"language":"c++","source":"1"}},"limits":{"c++":{"wall":2},"py":{"wall":1.5}}}}}`).Program.Tests
	if c := got.Checker.Code; c.Language != "cpp" || c.Compile == nil || c.Compile.Wall == 0 || c.Compile.Memory == 0 {
		t.Errorf("%+v", c)
	}
	if k := got.Checker; k.Memory != job.DefaultCheckerMemory || k.Wall != job.Duration(30*time.Second) {
		t.Errorf("%+v", k)
	}
	if got.Limits["cpp"].Wall != 2 || got.Multiplier().Wall != 1.5 || len(got.Limits) != 2 {
		t.Errorf("%+v", got.Limits)
	}
	a := withResultCache(t)
	for in, want := range map[string]string{
		`"checker":{"code":{"language":"cobol","source":"1"}}`:              `program.tests.checker.code.language: there is no language "cobol"`,
		`"interactor":{"code":{"language":"cpp","files":{"a.cpp":"1"}}}`:    `program.tests.interactor.code.files: has no main.cpp`,
		`"checker":{"code":{"language":"bash","source":"1","compile":{}}}`:  `program.tests.checker.code.compile: Bash is not compiled`,
		`"checker":{"code":{"language":"bash","files":{"../x":"1"}}}`:       `program.tests.checker.code.files["../x"]`,
		`"limits":{"cobol":{"wall":2}}`:                                     `program.tests.limits: there is no language "cobol"`,
		`"limits":{"c++":{"wall":2},"cpp":{"wall":3}}`:                      `program.tests.limits: has cpp twice`,
		`"stdio":[{"stdin_blob":"sha256:` + strings.Repeat("0", 64) + `"}]`: `program.tests.stdio[0].stdin_blob: sha256:0000`,
		`"stdio":[{"wall":"20s"}],"limits":{"python":{"wall":2}}`:           `program.tests.stdio[0].wall: 40s is more than the whole job has`,
		`"stdio":[{}],"case_wall":"20s","limits":{"python":{"wall":2}}`:     `program.tests.case_wall: 40s is more than the whole job has`,
	} {
		_, err := a.Job(context.Background(), "acme", "", []byte(`{"program":{"tests":{"code":"1",`+strings.Replace(in, `"checker"`, `"stdio":[{}],"checker"`, 1)+`}}}`))
		if strings.HasPrefix(in, `"interactor"`) || strings.HasPrefix(in, `"limits":{"c`) {
			_, err = a.Job(context.Background(), "acme", "", []byte(tests+in+`}}}`))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// images has python and c in the default image, all languages in another, and no data about other images.
type images map[string][]string

func (i images) Lacks(image, language string) ([]string, bool) {
	has := i[image]
	return has, has != nil && !slices.Contains(has, language)
}

func (i images) With(language string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(i)) {
		if slices.Contains(i[name], language) {
			out = append(out, name)
		}
	}
	return out
}

// TestLanguagesThatImagesLack checks that a language that the image lacks is rejected. The error names the image's
// languages, and images with the language.
func TestLanguagesThatImagesLack(t *testing.T) {
	t.Parallel()
	a := withResultCache(t)
	a.Images = images{"python": {"c", "python"}, "polyglot": {"c", "haskell", "python"}, "none": {}}
	const lacks = "the image python has no haskell, but c, python; name an image that has it: polyglot"
	for in, want := range map[string]string{
		`"program":{"code":{"language":"hs","source":"1"}}`:                                                                      "program.code.language: " + lacks,
		`"program":{"tests":{"language":"haskell","code":"1","stdio":[{}]}}`:                                                     "program.tests.language: " + lacks,
		`"program":{"tests":{"code":"1","stdio":[{}],"checker":{"code":{"language":"haskell","source":"1"}}}}`:                   "program.tests.checker.code.language: " + lacks,
		`"program":{"tests":{"language":"c","code":"1","stdio":[{}],"interactor":{"code":{"language":"haskell","source":"1"}}}}`: "program.tests.interactor.code.language: " + lacks,
		`"program":{"code":{"language":"rust","source":"1"}}`:                                                                    "program.code.language: the image python has no rust, but c, python; no known image of this fleet has it",
		`"image":"none","program":{"code":{"language":"c","source":"1"}}`:                                                        "program.code.language: the image none has no c, but no language of the catalogue; name an image that has it: polyglot, python",
		`"image":"polyglot","program":{"code":{"language":"haskell","source":"1"}}`:                                              "",
		`"image":"ghcr.io/a/own:v1","program":{"code":{"language":"rust","source":"1"}}`:                                         "", // the worker checks it
		`"image":"none","program":{"tests":{"code":"1","stdio":[{}]}}`:                                                           "",
		`"program":{"tests":{"language":"C","code":"1","stdio":[{}],"checker":{"code":{"language":"python","source":"1"}}}}`:     "",
	} {
		_, err := a.Job(t.Context(), "acme", "", []byte("{"+in+"}"))
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || !errors.Is(err, job.ErrInvalid)) {
			t.Errorf("%s\n got: %v\nwant: %s", in, err, want)
		}
	}
}

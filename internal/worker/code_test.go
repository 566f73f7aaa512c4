package worker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// poly is a scripted image. Its compiler copies the source, which prints its input.
type poly struct {
	mu       sync.Mutex
	commands [][]string
	files    [][]runtime.File // of each command
	compiles int
	broken   int // compilations that break their sandbox
	missing  bool
	images   func() map[string]string
}

func (p *poly) run(ctx context.Context, k runtime.Key, a runtime.Attempt) (*runtime.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.Kind != "command" {
		return nil, fmt.Errorf("a slot for %q", k.Kind)
	}
	argv := a.Program.Command.Argv
	p.commands, p.files = append(p.commands, argv), append(p.files, a.Files)
	rep := &runtime.Report{Result: job.Result{Outcome: job.Succeeded, ExitCode: new(int), ImageDigest: p.images()[k.Image]}}
	source := string(fileOf(a.Files, "/workspace/main.cpp").Data)
	failed := func(code int, stderr string) {
		rep.Outcome, rep.ExitCode, rep.Stderr.Text = job.Failed, &code, stderr
	}
	switch {
	case p.missing:
		failed(127, "")
		rep.Unbegun, rep.Message = true, "no such program"
	case argv[0] == "g++":
		p.compiles++
		if p.broken > 0 {
			p.broken--
			return nil, runtime.ErrBroken
		}
		if len(a.Secrets) > 0 || a.Plan.Policy.Network.Mode != "none" {
			return nil, fmt.Errorf("the compiler is told too much: %+v", a)
		}
		if strings.Contains(source, "#error") {
			failed(1, "main.cpp:1:2: error: #error no")
			break
		}
		if err := a.Collect(ctx, "/workspace/.out/main", 3, strings.NewReader("ELF")); err != nil {
			return nil, err
		}
	default:
		rep.Stdout.Text = a.Program.Command.Stdin
		if a.Output != nil {
			_, _ = io.WriteString(a.Output, rep.Stdout.Text)
		}
	}
	return rep, nil
}

func fileOf(files []runtime.File, path string) runtime.File {
	i := slices.IndexFunc(files, func(f runtime.File) bool { return f.Path == path })
	if i < 0 {
		return runtime.File{}
	}
	return files[i]
}

func withPoly(t *testing.T, p *poly, check func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(p.run)
		p.images = rt.ImageDigests
		b := start(t, newFleet(), func(_ *Config, parts *Parts) { parts.Runtime = rt })
		check(b)
	})
}

func cpp(source string) job.Spec {
	s := script("")
	s.Program = job.Program{Code: &job.Code{Language: "cpp", Source: source, Stdin: "in", Args: []string{"a"}}}
	return s
}

func graded(source string, cases ...job.Stdio) job.Spec {
	s := script("")
	s.Program = job.Program{Tests: &job.Tests{Language: "cpp", Code: source, Stdio: cases}}
	return s
}

func TestCodeIsCompiledOnceAndRun(t *testing.T) {
	p := &poly{}
	withPoly(t, p, func(b *bench) {
		first, second := b.recorded(b.submit(t, cpp("int main() {}"))), b.recorded(b.submit(t, cpp("int main() {}")))
		for i, res := range []job.Result{first, second} {
			if res.Outcome != job.Succeeded || res.Stdout.Text != "in" || res.Compiled == nil || res.Compiled.Cached != (i == 1) || res.Compiled.Language != "cpp" {
				t.Errorf("%d: %+v, %+v", i, res, res.Compiled)
			}
		}
		want := [][]string{{"g++", "-O2", "-std=gnu++20", "-o", "/workspace/.out/main", "main.cpp"}, {"/workspace/.out/main", "a"}, {"/workspace/.out/main", "a"}}
		if diff := cmp.Diff(want, p.commands); diff != "" {
			t.Error(diff)
		}
		if f := fileOf(p.files[2], "/workspace/.out/main"); !f.Compiled || f.Open == nil {
			t.Errorf("%+v", p.files[2])
		}
	})
}

// labelled is a runtime that lists images, given the digest of the jobs' image.
type labelled struct {
	*fake.Runtime
	images func(digest string) []policy.HostImage
}

func (l labelled) Images() ([]policy.HostImage, int) { return l.images(l.ImageDigests()["python"]), 0 }

// A result has the version of the language in which its program was compiled, if the label of that
// very image has it.
func TestVersionOfWhatIsCompiled(t *testing.T) {
	says := map[string]string{"cpp": "g++ 12", "c": "gcc 11"}
	other := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		images func(digest string) []policy.HostImage
		want   string
	}{
		"a label": {func(digest string) []policy.HostImage {
			return []policy.HostImage{{Digest: other, Languages: map[string]string{"cpp": "g++ 9"}}, {Digest: digest}, {Digest: digest, Languages: says}}
		}, "g++ 12"},
		"no label": {func(digest string) []policy.HostImage { return []policy.HostImage{{Name: "python", Digest: digest}} }, ""},
		"replaced meanwhile": {func(string) []policy.HostImage {
			return []policy.HostImage{{Name: "python", Digest: other, Languages: says}}
		}, ""},
		"not looked yet": {func(string) []policy.HostImage { return nil }, ""},
		"without the language": {func(digest string) []policy.HostImage {
			return []policy.HostImage{{Digest: digest, Languages: map[string]string{"c": "gcc 11"}}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &poly{}
				rt := labelled{fake.New(p.run), c.images}
				p.images = rt.ImageDigests
				b := start(t, newFleet(), func(_ *Config, parts *Parts) { parts.Runtime = rt })
				for _, source := range []string{"int main() {}", "int main() {}", "#error"} { // the second time from the cache
					if res := b.recorded(b.submit(t, cpp(source))); res.Compiled == nil || res.Compiled.Version != c.want {
						t.Errorf("%s: %+v", source, res.Compiled)
					}
				}
			})
		})
	}
}

func TestAllCasesShareWhatWasCompiled(t *testing.T) {
	p := &poly{}
	withPoly(t, p, func(b *bench) {
		cases := make([]job.Stdio, 5)
		for i := range cases {
			cases[i].Stdin = fmt.Sprint(i)
			cases[i].Stdout = fmt.Sprint(i)
		}
		cases[3].Stdout = "other"
		res := b.recorded(b.submit(t, graded("int main() {}", cases...)))
		if res.Outcome != job.Failed || res.Tests.Passed != 4 || res.Tests.Cases[3].Passed || p.compiles != 1 || res.Compiled == nil || res.Compiled.Cached {
			t.Errorf("%+v, %+v, %d compiled", res, res.Tests, p.compiles)
		}
	})
}

// A compile error is the program's fault, and no case runs.
func TestCompileErrors(t *testing.T) {
	p := &poly{}
	withPoly(t, p, func(b *bench) {
		for i := range 2 {
			res := b.recorded(b.submit(t, graded("#error", job.Stdio{}, job.Stdio{})))
			tests := res.Tests
			if res.Outcome != job.CompileError || !res.Outcome.OfProgram() || res.Message != "C++: it does not compile: main.cpp:1:2: error: #error no" ||
				res.Compiled.Stderr.Text != "main.cpp:1:2: error: #error no" || res.Compiled.Outcome != job.Failed || res.Compiled.Cached != (i == 1) {
				t.Errorf("%+v, %+v", res, res.Compiled)
			}
			if !slices.Equal(res.Feedback, []string{"main.cpp:1:2: error: #error no"}) {
				t.Errorf("feedback %q", res.Feedback)
			}
			if tests.Total != 2 || tests.Passed+tests.Failed+tests.Errors != 0 || len(tests.Cases) != 0 || *tests.Score != 0 {
				t.Errorf("%+v", tests)
			}
		}
		if res := b.recorded(b.submit(t, cpp("#error"))); res.Outcome != job.CompileError || res.Tests != nil || len(p.commands) != 1 {
			t.Errorf("%+v after %v", res, p.commands)
		}
	})
}

// A language that the image lacks is not the program's fault.
func TestLanguagesThatAnImageLacks(t *testing.T) {
	p := &poly{missing: true}
	withPoly(t, p, func(b *bench) {
		bash := cpp("echo")
		bash.Program.Code.Language = "bash"
		inBash := graded("echo", job.Stdio{})
		inBash.Program.Tests.Language = "bash"
		for want, spec := range map[string]job.Spec{"cpp: the image python does not have it (g++: ": cpp("int main() {}"), "bash: the image python does not have it (bash: ": bash} {
			if res := b.recorded(b.submit(t, spec)); res.Outcome != job.SetupError || !strings.HasPrefix(res.Message, "language "+want) {
				t.Errorf("%s: %s", res.Outcome, res.Message)
			}
		}
		if res := b.recorded(b.submit(t, inBash)); res.Outcome != job.SetupError || !strings.Contains(res.Message, "language bash: ") || res.Tests != nil {
			t.Errorf("%+v", res)
		}
		unknown := cpp("1")
		unknown.Program.Code.Language = "of tomorrow"
		if res := b.recorded(b.submit(t, unknown)); res.Outcome != job.SetupError {
			t.Errorf("%+v", res)
		}
	})
}

// A compilation whose sandbox breaks runs once more, alone. A second break is the program's fault.
func TestCompilersThatBreakTheirSandbox(t *testing.T) {
	p := &poly{broken: 1}
	withPoly(t, p, func(b *bench) {
		if res := b.recorded(b.submit(t, cpp("int main() {}"))); res.Outcome != job.Succeeded || p.compiles != 2 {
			t.Errorf("%+v, %d compiled", res, p.compiles)
		}
		p.broken = 2
		if res := b.recorded(b.submit(t, cpp("int main() { }"))); res.Outcome != job.PolicyViolation {
			t.Errorf("%+v", res)
		}
	})
}

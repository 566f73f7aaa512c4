package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

const adds = "#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }\n"

// swaps does the same, and tries to replace its own compiled file.
const swaps = `#include <cstdio>
#include <cstdlib>
int main() {
	long a, b;
	if (scanf("%ld %ld", &a, &b) != 2) return 1;
	system("cp /bin/false /workspace/.out/main; chmod 777 /workspace/.out /workspace/.out/main; mv /workspace/.out /workspace/x; mkdir /workspace/.out; cp /bin/false /workspace/.out/main");
	printf("%ld\n", a + b);
}
`

func sums(n int) []job.Stdio {
	cases := make([]job.Stdio, n)
	for i := range cases {
		cases[i] = job.Stdio{Stdin: fmt.Sprintf("%d %d\n", i, i), Stdout: fmt.Sprintln(2 * i)}
	}
	return cases
}

// ran returns the result of a program at an isolation.
func ran(t *testing.T, f *fleet, isolation string, p job.Program) *job.Result {
	t.Helper()
	policy, err := json.Marshal(limits{"isolation": isolation})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.api.Run(t.Context(), job.Spec{Program: p, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// versionsOfPython waits until the fleet has the languages of the image python, and returns their
// versions.
func versionsOfPython(t *testing.T, f *fleet) map[string]string {
	t.Helper()
	out := map[string]string{}
	eventually(t, "the workers say which languages the image has", func() bool {
		list, err := f.api.Languages(t.Context(), "python")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list.Languages {
			if l.Available != nil && *l.Available {
				out[l.Name] = l.Version
			}
		}
		return len(out) > 0
	})
	return out
}

// A solution in C++ is compiled once, for all cases and submissions, at every isolation.
func TestCodeIsCompiledOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	version := versionsOfPython(t, f)["cpp"]
	if !strings.HasPrefix(version, "g++ ") {
		t.Errorf("the image says of C++ %q", version)
	}
	for _, isolation := range []string{"cell", "task", "gvisor"} {
		for name, source := range map[string]string{"a solution": adds, "one that swaps its binary": swaps} {
			solution := job.Program{Tests: &job.Tests{Language: "c++", Code: source, Stdio: sums(50)}}
			for i := range 2 {
				r := ran(t, f, isolation, solution)
				if r.Outcome != job.Succeeded || r.Tests == nil || r.Tests.Passed != 50 || r.Compiled == nil || r.Compiled.Cached != (i == 1) || r.Compiled.Version != version {
					t.Errorf("%s, %s, %d: %s: %s, %+v, compiled %+v", isolation, name, i, r.Outcome, r.Message, r.Tests, r.Compiled)
				}
			}
		}
		for i := range 2 {
			r := ran(t, f, isolation, job.Program{Code: &job.Code{Language: "cpp", Files: map[string]string{
				"main.cpp": "#include <iostream>\n#include \"part/f.h\"\nint main(int, char **v) { std::cout << f() << v[1]; return 3; }",
				"part/f.h": "int f();", "part/f.cpp": "int f() { return 42; }",
			}, Args: []string{"x"}}})
			if r.Outcome != job.Failed || *r.ExitCode != 3 || r.Stdout.Text != "42x" || r.Compiled == nil || r.Compiled.Cached != (i == 1) || r.Compiled.Version != version {
				t.Errorf("%s: %s: %s, %q, compiled %+v", isolation, r.Outcome, r.Message, r.Stdout.Text, r.Compiled)
			}
		}
		if r := ran(t, f, isolation, job.Program{Code: &job.Code{Language: "sh", Source: "cat; echo $1", Stdin: "in ", Args: []string{"a"}}}); r.Outcome != job.Succeeded || r.Stdout.Text != "in a\n" || r.Compiled != nil {
			t.Errorf("%s: %s: %s, %q", isolation, r.Outcome, r.Message, r.Stdout.Text)
		}
	}
}

// A compile error is the program's fault, whatever it does to the compiler.
func TestCodeThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	f := start(t)
	short := func(flags ...string) *job.Compile { return &job.Compile{Wall: job.Duration(3e9), Flags: flags} }
	const bomb = "template<int N, int M> struct A { static const int v = A<N-1, M>::v + A<N-1, M+1>::v; };\n" +
		"template<int M> struct A<0, M> { static const int v = M; };\nint main() { return A<800, 0>::v; }"
	repeated := func(what string) string {
		out := "#define A " + strings.Repeat(what, 10) + "\n"
		for c := 'B'; c <= 'E'; c++ {
			out += fmt.Sprintf("#define %c %s\n", c, strings.Repeat(string(c-1)+" ", 10))
		}
		return out + "int main() { E }"
	}
	for name, c := range map[string]struct {
		code    job.Code
		message string
		outcome job.Outcome // of the compiler; empty: any
	}{
		"an error":           {job.Code{Source: "int main() { return x; }"}, "C++: it does not compile: main.cpp:1:21: error: ", job.Failed},
		"a template bomb":    {job.Code{Source: bomb, Compile: short()}, "C++: it was not compiled to the end: ", ""},
		"a gigabyte":         {job.Code{Source: "char a[2000000000] = {1}; int main() {}"}, "C++: it ", ""},
		"many errors":        {job.Code{Source: repeated("x; "), Compile: short("-fmax-errors=0")}, "C++: it ", ""},
		"a file of the host": {job.Code{Source: "#include \"/etc/shadow\"\nint main() {}"}, "C++: it does not compile: main.cpp:1:10: fatal error: /etc/shadow: ", job.Failed},
		"a file with no end": {job.Code{Source: "#include \"/dev/zero\"\n", Compile: short()}, "C++: it was not compiled to the end: ", ""},
		"no end":             {job.Code{Source: "constexpr int f() { for (;;) ; return 0; }\nconstexpr int y = f(); int main() {}", Compile: short("-fconstexpr-ops-limit=9223372036854775807", "-fconstexpr-loop-limit=2147483647")}, "C++: it was not compiled to the end: ", job.TimedOut},
		"nothing made":       {job.Code{Source: "int main() {}", Compile: short("-fsyntax-only")}, "C++: the compiler made nothing of it", job.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			c.code.Language = "cpp"
			r := ran(t, f, "cell", job.Program{Code: &c.code})
			if r.Outcome != job.CompileError || !r.Outcome.OfProgram() || !strings.HasPrefix(r.Message, c.message) || r.Compiled == nil || r.Compiled.Cached || c.outcome != "" && r.Compiled.Outcome != c.outcome {
				t.Errorf("%s: %s, compiled %+v", r.Outcome, r.Message, r.Compiled)
			}
			if size := len(r.Compiled.Stdout.Text) + len(r.Compiled.Stderr.Text); size > 128<<10 {
				t.Errorf("%d bytes of the compiler's words are kept", size)
			}
		})
	}
	r := ran(t, f, "cell", job.Program{Tests: &job.Tests{Language: "cpp", Code: "int main() { return x; }", Stdio: sums(3)}})
	if g := r.Tests; r.Outcome != job.CompileError || g == nil || g.Total != 3 || len(g.Cases) != 0 || g.Score == nil || *g.Score != 0 {
		t.Errorf("%s: %s, %+v", r.Outcome, r.Message, g)
	}
}

// A language that is not in the image is refused before the job is accepted, with a list of the
// available ones. For an image without a label the fleet has no list. A missing language shows when
// the job runs, and is not the program's fault.
func TestCodeInALanguageThatTheImageLacks(t *testing.T) {
	t.Parallel()
	url, _ := oneImage(t, tarball(t, "file", "text"))
	f := start(t, "ASSAY_IMAGE_REGISTRIES="+url)
	ran(t, f, "cell", python("import time; time.sleep(1)")) // refused jobs leave no trace in the records
	there := strings.Join(slices.Sorted(maps.Keys(versionsOfPython(t, f))), ", ")
	unlabelled := strings.TrimPrefix(url, "http://") + "/a/b:1"
	for field, p := range map[string]job.Program{
		"program.code.language":  {Code: &job.Code{Language: "haskell", Source: "main = pure ()"}},
		"program.tests.language": {Tests: &job.Tests{Language: "lua", Code: "print(1)", Stdio: sums(1)}},
	} {
		_, err := f.api.Run(t.Context(), job.Spec{Program: p})
		refused := new(job.FieldError)
		if !errors.Is(err, job.ErrInvalid) || !errors.As(err, &refused) || refused.Field != field || !strings.Contains(refused.Problem, "but "+there+"; ") {
			t.Errorf("%s: %v, want a refusal that lists %s", field, err, there)
		}
		s := spec(t, p, "task", nil, "")
		s.Image = unlabelled
		r, err := f.api.Run(t.Context(), s)
		if err != nil || r.Outcome != job.SetupError || !strings.Contains(r.Message, "the image "+unlabelled+" does not have it") {
			t.Errorf("%s in an image without a label: %+v, %v", field, r, err)
		}
	}
}

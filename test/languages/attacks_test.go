//go:build languages

package languages

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// attack is a program against its compiler or its test runner.
type attack struct {
	name, language string
	files          program
	outcomes       []job.Outcome
	says           string // required in its output
}

var refused = []job.Outcome{job.CompileError}

// attacks are attacks on compilers of the image polyglot by a source, beyond those for C and C++ in
// test/hostile/compilers.
var attacks = []attack{
	{"reads passwords", "rust", program{"": `fn main() { print!("{}", include_str!("/etc/shadow")) }`}, refused, ""},
	{"reads memory of the compiler", "rust", program{"": `static A: &[u8] = include_bytes!("/proc/self/mem"); fn main() { println!("{}", A.len()) }`}, refused, ""},
	{"a constant without end", "rust", program{"": `const X: u64 = { let mut i = 0u64; loop { i += 1; if i == u64::MAX { break } } i }; fn main() { println!("{}", X) }`}, refused, ""},
	{"a macro bomb", "rust", program{"": `macro_rules! b { ($($x:tt)*) => { b!($($x)* $($x)* x) } } fn main() { b!(x) }`}, refused, ""},
	{"a plugin by cgo", "go", program{"": "package main\n// #cgo CFLAGS: -fplugin=/workspace/x.so -wrapper /workspace/x\nimport \"C\"\nfunc main() {}\n"}, refused, ""},
	{"takes in passwords", "go", program{"": "package main\nimport (_ \"embed\"; \"fmt\")\n//go:embed /etc/shadow\nvar s string\nfunc main() { fmt.Print(s) }\n"}, refused, ""},
	{"a generator that is never asked", "go", program{"": "package main\nimport \"os\"\n//go:generate sh -c \"touch /workspace/.out/made\"\nfunc main() { if _, err := os.Stat(\"/workspace/.out/made\"); err == nil { println(\"made\") }; os.Stdout.WriteString(\"fine\\n\") }\n"}, []job.Outcome{job.Succeeded}, "fine\n"},
	{"another toolchain", "go", program{"": "package main\nfunc main() { println(1) }\n", "go.mod": "module x\n\ngo 1.19\n\nreplace fmt => /etc\n"}, []job.Outcome{job.Succeeded, job.CompileError}, ""},
	{"code in the compiler", "haskell", program{"": "{-# LANGUAGE TemplateHaskell #-}\nmodule Main where\nimport Language.Haskell.TH\nimport System.Process\nmain = putStrLn $(do { s <- runIO (readProcess \"sh\" [\"-c\", \"cat /etc/shadow /proc/1/environ 2>/dev/null; touch /etc/x /usr/bin/x 2>/dev/null && echo ESCAPED; exit 0\"] \"\"); stringE (\"made: \" ++ s) })\n"},
		[]job.Outcome{job.Succeeded, job.CompileError}, ""},
	{"code in the compiler without end", "haskell", program{"": "{-# LANGUAGE TemplateHaskell #-}\nmodule Main where\nimport Language.Haskell.TH\nmain = print $(litE (integerL (length [1..])))\n"}, refused, ""},
	{"deep parentheses", "java", program{"": "class Main { static int x = " + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000) + "; public static void main(String[] a) {} }"}, []job.Outcome{job.Succeeded, job.CompileError}, ""},
	{"a constant that doubles", "java", program{"": "class Main { static final String a = \"" + strings.Repeat("x", 1000) + "\";" + doubled("static final String %s = %s + %s;", 18) + " public static void main(String[] a) {} }"}, refused, ""},
	{"a file elsewhere", "typescript", program{"": "/// <reference path=\"/etc/passwd\" />\nconsole.log(1)\n"}, refused, ""},
	{"types without end", "typescript", program{"": "type A<T> = { x: A<A<A<T>>> }; type B<T, N extends any[] = []> = N['length'] extends 999 ? T : B<[T, T], [...N, 1]>;\nlet a: A<1> = 1; let b: B<1> = a;\n"}, refused, ""},
	{"settings of its own", "typescript", program{"": "const x: string = 1;\n", "tsconfig.json": `{"compilerOptions": {"noEmitOnError": false, "noCheck": true, "outDir": "/etc"}}`}, refused, ""},

	// Settings that are data do not change the verdict of a runner. Code beside the tests may: see
	// docs/languages.md.
	{"settings of jest", "jest", program{"": "test('x', () => { expect(1).toBe(2) })\n", "package.json": `{"jest": {"testMatch": [], "passWithNoTests": true}}`, "jest.config.js": "module.exports = {testMatch: [], passWithNoTests: true}\n"}, ends, ""},
	{"settings of pytest", "pytest", program{"": "def test_x():\n    assert 1 == 2\n", "pytest.ini": "[pytest]\naddopts = --collect-only\n"}, ends, ""},
	{"settings of pytest elsewhere", "pytest", program{"": "def test_x():\n    assert 1 == 2\n", "pyproject.toml": "[tool.pytest.ini_options]\naddopts = \"--deselect test_main.py::test_x --suppress-no-test-exit-code -k nothing\"\n", "tox.ini": "[pytest]\naddopts = --collect-only\n", "setup.cfg": "[tool:pytest]\naddopts = --help\n"}, ends, ""},
	{"settings of junit", "junit", program{"": "import org.junit.jupiter.api.*;\nclass MainTest { @Test void x() { Assertions.assertEquals(1, 2); } }\n", "junit-platform.properties": "junit.jupiter.conditions.deactivate=*\njunit.jupiter.execution.dryRun.enabled=true\n"}, ends, ""},
	{"tests elsewhere", "gotest", program{"": "package main\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Fatal() }\n", "go.mod": "module x\n\ngo 1.19\n", "vendor/testing/testing.go": "package testing\ntype T struct{}\nfunc (*T) Fatal() {}\n"}, append(slices.Clone(ends), job.CompileError), ""},
}

// doubled returns n lines, each of which repeats the previous one twice.
func doubled(line string, n int) string {
	var b strings.Builder
	names := "abcdefghijklmnopqrstuvwxyz"
	for i := range n {
		b.WriteString(strings.NewReplacer("%s = %s + %s", names[i+1:i+2]+" = "+names[i:i+1]+" + "+names[i:i+1]).Replace(line))
	}
	return b.String()
}

// TestAttacks compiles attacks with each compiler, and runs settings that try to make each runner
// pass. Each ends with a verdict, and the output has only data of the program.
func TestAttacks(t *testing.T) {
	c := fleet(t)
	versions(t, c)
	for _, a := range attacks {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), a.language) {
			continue
		}
		t.Run(a.language+" "+a.name, func(t *testing.T) {
			l, err := language.Find(a.language)
			if err != nil {
				t.Fatal(err)
			}
			res := run(t, c, l, a.files, want{})
			words := res.Stdout.Text + res.Stderr.Text + res.Message
			if res.Compiled != nil {
				words += res.Compiled.Stdout.Text + res.Compiled.Stderr.Text
			}
			if !slices.Contains(a.outcomes, res.Outcome) || !strings.Contains(res.Stdout.Text, a.says) {
				t.Errorf("%s (%s), want %s\n%.2000s", res.Outcome, res.Message, a.outcomes, words)
			}
			if strings.Contains(words, "ESCAPED") || strings.Contains(words, "root:") || len(words) > 200<<10 {
				t.Errorf("%d bytes of words: %.2000s", len(words), words)
			}
		})
	}
}

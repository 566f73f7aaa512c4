package compile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/runtime"
)

// TestDiagnostics checks the parser with real output of compilers.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stderr, stdout string
		want           []string
	}{
		"gcc": {"main.c: In function 'main':\nmain.c:3:12: warning: unused variable 'error_count' [-Wunused-variable]\nmain.c:4:3: error: 'x' undeclared (first use in this function)\n    4 |   x = 1;\n      |   ^\n", "",
			[]string{"main.c:4:3: error: 'x' undeclared (first use in this function)"}},
		"g++ link": {"/usr/bin/ld: /tmp/cc1.o: in function `main':\nmain.cpp:(.text+0x9): undefined reference to `foo()'\ncollect2: error: ld returned 1 exit status\n", "",
			[]string{"main.cpp:(.text+0x9): undefined reference to `foo()'"}},
		"g++ header": {"In file included from a.h:1,\n                 from main.cpp:1:\nmain.cpp:1:10: fatal error: nope.h: No such file or directory\ncompilation terminated.\n", "",
			[]string{"main.cpp:1:10: fatal error: nope.h: No such file or directory"}},
		"go": {"# command-line-arguments\n./main.go:5:2: undefined: x\n./main.go:6:9: cannot use 1 (untyped int constant) as error value in return statement: int does not implement error (missing method Error)\n", "",
			[]string{"./main.go:5:2: undefined: x", "./main.go:6:9: cannot use 1 (untyped int constant) as error value in return statement: int does not implement error (missing method Error)"}},
		"go syntax":  {"# command-line-arguments\n./main.go:3:1: syntax error: non-declaration statement outside function body\n", "", []string{"./main.go:3:1: syntax error: non-declaration statement outside function body"}},
		"go package": {"main.go:3:8: package nope is not in std (/usr/local/go/src/nope)\n", "", []string{"main.go:3:8: package nope is not in std (/usr/local/go/src/nope)"}},
		"rustc": {"warning: unused variable: `error`\n --> main.rs:1:17\n\nerror[E0425]: cannot find value `y` in this scope\n --> main.rs:2:20\n  |\n2 |     println!(\"{}\", y);\n\nerror: aborting due to 1 previous error; 1 warning emitted\n", "",
			[]string{"main.rs:2:20: error[E0425]: cannot find value `y` in this scope"}},
		"javac": {"Main.java:3: error: incompatible types: String cannot be converted to int\n    int x = \"a\";\n            ^\nNote: Some messages have been simplified\n1 error\n", "",
			[]string{"Main.java:3: error: incompatible types: String cannot be converted to int"}},
		"tsc":      {"", "main.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\n", []string{"main.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'."}},
		"csc":      {"", "main.cs(3,5): warning CS0168: The variable 'error' is declared but never used\nmain.cs(4,5): error CS0103: The name 'x' does not exist\n", []string{"main.cs(4,5): error CS0103: The name 'x' does not exist"}},
		"ghc":      {"\nmain.hs:1:8: error: [GHC-88464]\n    Variable not in scope: foo :: IO t\n  |\n1 | main = foo\n", "", []string{"main.hs:1:8: error: [GHC-88464] Variable not in scope: foo :: IO t"}},
		"ghc, old": {"\nmain.hs:1:8: error:\n    Variable not in scope: foo :: IO t\n", "", []string{"main.hs:1:8: error: Variable not in scope: foo :: IO t"}},
		"ocaml":    {"File \"main.ml\", line 1, characters 8-9:\n1 | let () = x\n            ^\nError: Unbound value x\n", "", []string{"File \"main.ml\", line 1, characters 8-9: Error: Unbound value x"}},
		"gfortran": {"main.f90:3:5:\n\n    3 |     x = 1\n      |     1\nError: Symbol 'x' at (1) has no IMPLICIT type\n", "", []string{"main.f90:3:5: Error: Symbol 'x' at (1) has no IMPLICIT type"}},
		"fpc":      {"", "Free Pascal Compiler version 3.2.2\nCompiling main.pas\nmain.pas(3,3) Error: Identifier not found \"x\"\nmain.pas(5) Fatal: There were 1 errors compiling module, stopping\n", []string{"main.pas(3,3) Error: Identifier not found \"x\""}},
		"kotlinc":  {"main.kt:2:5: error: unresolved reference: x\n", "", []string{"main.kt:2:5: error: unresolved reference: x"}},
		"erlc":     {"main.erl:3:1: syntax error before: ')'\n", "", []string{"main.erl:3:1: syntax error before: ')'"}},
		"words":    {"\nthe program is bad\n", "", []string{"the program is bad"}},
		"heading":  {"# command-line-arguments\n", "", []string{"exit code 1"}},
		"nothing":  {"", "", []string{"exit code 1"}},
		"many":     {strings.Repeat("a.c:1:1: error: no\n", 100), "", []string{"a.c:1:1: error: no", "a.c:1:1: error: no", "a.c:1:1: error: no", "a.c:1:1: error: no", "a.c:1:1: error: no"}},
		"escapes":  {"a.c:1:1: error: \x1b[2J\u202e no\n", "", []string{"a.c:1:1: error: \uFFFD[2J\uFFFD no"}},
	} {
		rep := &runtime.Report{}
		rep.Message, rep.Stderr.Text, rep.Stdout.Text = "exit code 1", c.stderr, c.stdout
		if diff := cmp.Diff(c.want, diagnostics(rep)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const small = `{"name":"two-sum/3","labels":{"problem":"two-sum","sample":"3"},"image":"python","priority":0,
"program":{"python":{"code":"print(x + 1)","variables":{"x":1}}},
"files":{"/workspace/in.txt":{"text":"hello"},"/workspace/in.bin":{"base64":"AAE="}},
"policy":{"wall":"10s","memory":"256Mi"},"retry":{"max_attempts":1,"on":[]},"expires_in":"1h","cache":false}`

func python(rest string) string { return `{"program":{"python":{"code":"1"}},` + rest + `}` }

func TestDecodeSpecFillsInDefaults(t *testing.T) {
	t.Parallel()
	got, err := DecodeSpec([]byte(`{"program":{"command":{"argv":["/bin/true"]}},"name":null,"policy":null,"retry":null}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Image:   "python",
		Program: Program{Command: &Command{Argv: []string{"/bin/true"}}},
		Retry:   Retry{MaxAttempts: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestDecodeSpecAccepts(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		small,
		`{"program":{"command":{"steps":[{"name":"compile","argv":["gcc","a.c"]},{"name":"run","argv":["./a.out"],"stdin":"1","policy":{"wall":"1s"}}]}}}`,
		`{"program":{"tests":{"code":"def f(): ...","function":"f","cases":[{"args":[1],"expected":null}]}}}`,
		`{"program":{"tests":{"code":"def f(): ...","function":"Solution.f","check":"def check(c): ..."}}}`,
		`{"program":{"tests":{"code":"def f(): ...","function":"Solution().part.f","cases":[{}],"check":"f","functions":["g","h"]}}}`,
		`{"program":{"tests":{"code":"def f(): ...","check":"f","functions":["f"]}}}`,
		`{"program":{"tests":{"code":"1","stdio":[{"stdin":"","stdout":"","memory":"64Mi"}]}}}`,
		`{"program":{"python":{"code":"1","variables":{"x":[` + strings.Repeat("7", 4300) + `,"` + strings.Repeat("7", 5000) + `\"` + strings.Repeat("7", 5000) + `",0.` + strings.Repeat("7", 5000) + `]}}}}`,
		`{"program":{"tests":{"code":"print(input())","stdio":[{"stdin":"1\n","stdout":"1\n","weight":0.5}]}}}`,
		`{"\u0070rogram":{"python":{"code":"print('\ud83d\ude00 \\ud800 \ufffd')","context":{"a":[null]}}}}`,
		`{"program":{"code":{"language":"C++","source":"int main() {}","stdin":"1","args":["a"],"compile":{"flags":["-O0"],"wall":"10s","memory":"512Mi"}}}}`,
		`{"program":{"code":{"language":"go","files":{"main.go":"package main","part/a.go":""},"main":"part/a.go"}}}`,
		`{"program":{"tests":{"language":"cpp","files":{"main.cpp":"int main() {}"},"stdio":[{"stdin":"","stdout":""}]}}}`,
		python(`"policy":"offline"`), python(`"policy":{}`),
		python(`"files":{"/workspace/a":{"blob":"sha256:` + strings.Repeat("0a", 32) + `"}}`),
		python(`"image":"registry.example.org:5000/team/image@sha256:` + strings.Repeat("0a", 32) + `"`),
		python(`"retry":{"max_attempts":3,"on":["timed_out","failed"]}`),
	} {
		if _, err := DecodeSpec([]byte(in)); err != nil {
			t.Errorf("%s: %v", Clip(in, 80), err)
		}
	}
}

// badSpecs maps an input to the start of its error.
var badSpecs = []struct{ in, want string }{
	// Programs in a language.
	{`{"program":{"code":{"source":"1"}}}`, "program.code.language: must not be empty"},
	{`{"program":{"code":{"language":"c"}}}`, "program.code: must have source or files: exactly one of them"},
	{`{"program":{"code":{"language":"c","source":"1","files":{"main.c":"1"}}}}`, "program.code: must have source or files: exactly one of them"},
	{`{"program":{"code":{"language":"c","source":"a\u0000"}}}`, "program.code.source: must not contain NUL bytes"},
	{`{"program":{"code":{"language":"c","source":"` + strings.Repeat("x", 1<<20+1) + `"}}}`, "program.code.source: is 1048577 bytes; at most 1Mi"},
	{`{"program":{"code":{"language":"c","files":{"../main.c":"1"}}}}`, `program.code.files["../main.c"]: the path must not begin with a dot`},
	{`{"program":{"code":{"language":"c","files":{"a/../../main.c":"1"}}}}`, `program.code.files["a/../../main.c"]: the path must be plain`},
	{`{"program":{"code":{"language":"c","files":{"/etc/main.c":"1"}}}}`, `program.code.files["/etc/main.c"]: the path must be relative, such as main.c`},
	{`{"program":{"code":{"language":"c","files":{"-o":"1"}}}}`, `program.code.files["-o"]: the path must not begin with -`},
	{`{"program":{"code":{"language":"c","files":{"a\u0000":"1"}}}}`, `program.code.files["a\x00"]: the path must not contain NUL bytes`},
	{`{"program":{"code":{"language":"c","files":{"":"1"}}}}`, `program.code.files[""]: the path must not be empty`},
	{`{"program":{"code":{"language":"c","files":{"a":"1","a/b.c":"1"}}}}`, `program.code.files["a/b.c"]: lies below a, which is also a file`},
	{`{"program":{"code":{"language":"c","files":{"a.c":"1"},"main":"b.c"}}}`, `program.code.main: "b.c" is not one of files`},
	{`{"program":{"code":{"language":"c","source":"1","args":["a\u0000"]}}}`, "program.code.args[0]: must not contain NUL bytes"},
	{`{"program":{"code":{"language":"c","source":"1","compile":{"flags":["` + strings.Repeat("f", 20<<10) + `"]}}}}`, "program.code.compile.flags: are 20480 bytes together"},
	{`{"program":{"code":{"language":"c","source":"1","compile":{"memory":"1Mi"}}}}`, "program.code.compile.memory: must be at least 16Mi"},
	{`{"program":{"code":{"language":"c","source":"1","compile":{"wall":"-1s"}}}}`, "program.code.compile.wall: must be 0s to"},
	{`{"program":{"tests":{"language":"c","code":"1","files":{"main.c":"1"},"stdio":[{}]}}}`, "program.tests.files: excludes code"},
	{`{"program":{"tests":{"language":"c","files":{},"stdio":[{}]}}}`, "program.tests.code: must not be empty"},
	{`{"program":{"tests":{"files":{"main.py":"1"},"function":"f","cases":[{}]}}}`, "program.tests: has files or compile, which are for stdio alone"},
	{`{"program":{"tests":{"language":"c","files":{"../a":"1"},"stdio":[{}]}}}`, `program.tests.files["../a"]: the path must not begin with a dot`},
	// Syntax.
	{``, "is not valid JSON: unexpected end"},
	{`{"program":{"python":{"code":"1"}}`, "is not valid JSON: unexpected end"},
	{`{"program":{"python":{"code":"1"}}} {}`, "is not valid JSON: invalid character '{'"},
	{`{"nmae":1,}`, "is not valid JSON"},
	{"{\"name\":\"\xff\"}", "is not valid UTF-8 (byte 9)"},
	{`{"name":"\ud800x"}`, "name: has half of a surrogate pair"},
	{`{"name":"\ude00\ud83d"}`, "name: has half of a surrogate pair"},
	// Shape.
	{`[]`, "must be an object, not a list"},
	{`null`, "must be an object, not null"},
	{python(`"nmae":"x"`), "nmae: unknown field; did you mean name?"},
	{python(`"Name":"x"`), "Name: unknown field; did you mean name?"},
	{python(`"frobnicate":"x"`), "frobnicate: unknown field; there are name, labels, image"},
	{`{"program":{"python":{"cod":"1"}}}`, "program.python.cod: unknown field; did you mean code?"},
	{`{"program":{"pyhton":{"code":"1"}}}`, "program.pyhton: unknown field; did you mean python?"},
	{python(`"program":{"command":{"argv":["x"]}}`), "program: is given twice"},
	{python(`"labels":{"a":"1","\u0061":"2"}`), "labels.a: is given twice"},
	{`{"program":{"python":{"code":"1","variables":{"x":1,"x":2}}}}`, "program.python.variables.x: is given twice"},
	{`{"program":{"python":{"code":"1","variables":{"x":[0,{"a":{},"b c":1,"a":2}]}}}}`, "program.python.variables.x[1].a: is given twice"},
	{`{"program":{"python":{"code":"1","context":{"k":[{"` + strings.Repeat(`k":1,"l`, 20) + `":1}]}}}}`, "program.python.context.k[0].l"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"args":[{"a":1,"a":1}]}]}}}`, "program.tests.cases[0].args[0].a: is given twice"},
	{`{"program":{"python":{"code":"1","variables":{"n":[-1` + strings.Repeat("0", 4300) + `]}}}}`, "program.python.variables.n[0]: is a whole number of 4301 digits; python reads 4300 at most"},
	{python(`"name":7`), "name: must be a string, not a number"},
	{python(`"labels":[]`), "labels: must be an object, not a list"},
	{python(`"labels":{"a b":1}`), `labels["a b"]: must be a string, not a number`},
	{python(`"labels":{"a":null}`), "labels.a: must be a string, not null"},
	{python(`"priority":1.5`), "priority: must be a whole number of 64 bits, not 1.5"},
	{python(`"priority":"1"`), "priority: must be a whole number, not a string"},
	{python(`"cache":1`), "cache: must be true or false, not a number"},
	{python(`"expires_in":60`), `expires_in: duration 60 must be a string with a unit (ms, s, m, h) such as "1.5s"`},
	{python(`"expires_in":"60"`), `expires_in: duration "60" must be numbers with units, such as "1.5s" or "1h30m"; units are ms, s, m and h`},
	{python(`"expires_in":"99999999999999h"`), `expires_in: duration "99999999999999h" is out of range: the maximum is 2562047h`},
	{python(`"expires_in":{}`), "expires_in: must be a duration such as \"1.5s\", not an object"},
	{python(`"files":{"/a":{"txt":"x"}}`), `files["/a"].txt: unknown field; did you mean text?`},
	{`{"program":{"command":{"argv":["a",{}]}}}`, "program.command.argv[1]: must be a string, not an object"},
	{`{"program":{"command":{"argv":"ls -l"}}}`, "program.command.argv: must be a list, not a string"},
	{`{"program":{"command":{"steps":[{"name":"a","argv":["a"],"polcy":{}}]}}}`, "program.command.steps[0].polcy: unknown field; did you mean policy?"},
	{`{"program":{"tests":{"code":"1","cases":[{"weight":"1"}]}}}`, "program.tests.cases[0].weight: must be a number, not a string"},
	{`{"program":{"python":{"code":"1","variables":{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}}}`, "program.python.variables.x: is nested deeper than 200 levels"},
	// Program.
	{`{}`, "program: must be exactly one of python, command, tests, code; it has 0"},
	{`{"program":{"python":{"code":"1"},"command":{"argv":["x"]}}}`, "program: must be exactly one of python, command, tests, code; it has 2"},
	{`{"program":{"python":{}}}`, "program.python.code: must not be empty"},
	{`{"program":{"python":{"code":"a\u0000b"}}}`, "program.python.code: must not contain NUL bytes"},
	{`{"program":{"python":{"code":"` + strings.Repeat("a", 1<<20+1) + `"}}}`, "program.python.code: is 1048577 bytes; at most 1Mi"},
	{`{"program":{"python":{"code":"` + strings.Repeat("a", 10_000_000) + `"}}}`, "is 10000034 bytes; a job has at most 8388608"},
	{`{"program":{"python":{"code":"1","variables":{"a-b":1}}}}`, `program.python.variables["a-b"]: must be a python name`},
	{`{"program":{"command":{}}}`, "program.command: must have argv or steps"},
	{`{"program":{"command":{"argv":["a"],"steps":[{"name":"a","argv":["a"]}]}}}`, "program.command: must have argv or steps"},
	{`{"program":{"command":{"argv":[""]}}}`, "program.command.argv: must name a program"},
	{`{"program":{"command":{"argv":["a","b\u0000"]}}}`, "program.command.argv[1]: must not contain NUL bytes"},
	{`{"program":{"command":{"argv":["a","` + strings.Repeat("b", 128<<10) + `"]}}}`, "program.command.argv[1]: is 128Ki bytes; at most 131071"},
	{`{"program":{"command":{"argv":["a"],"dir":"tmp"}}}`, "program.command.dir: must be absolute, such as /workspace/tmp"},
	{`{"program":{"command":{"argv":["a"],"stdin":"\u0000"}}}`, "program.command.stdin: must not contain NUL bytes"},
	{`{"program":{"command":{"dir":"/tmp","steps":[{"name":"a","argv":["a"]}]}}}`, "program.command: has steps: give stdin and dir"},
	{`{"program":{"command":{"steps":[{"argv":["a"]}]}}}`, "program.command.steps[0].name: must not be empty"},
	{`{"program":{"command":{"steps":[{"name":"a","argv":["a"]},{"name":"a","argv":["b"]}]}}}`, `program.command.steps[1].name: "a" is the name of step 0 too`},
	{`{"program":{"command":{"steps":[{"name":"a","argv":[]}]}}}`, "program.command.steps[0].argv: must name a program"},
	{`{"program":{"command":{"steps":[{"name":"a","argv":["a"],"policy":"x"}]}}}`, "program.command.steps[0].policy: must be an object"},
	{`{"program":{"tests":{"code":"1"}}}`, "program.tests: must have cases, check or stdio"},
	{`{"program":{"tests":{"stdio":[{"argv":["a"]},{"stdin":"1"}]}}}`, "program.tests.code: must not be empty"},
	{`{"program":{"tests":{"check":"1"}}}`, "program.tests.code: must not be empty"},
	{`{"program":{"tests":{"code":"1","check":"x"}}}`, "program.tests.function: must name the function under test"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"a b"}}}`, "program.tests.function: must be a python name"},
	{`{"program":{"tests":{"code":"1","cases":[{}]}}}`, "program.tests.function: must name the function under test: cases call it"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"f()"}}}`, "program.tests.function: must be a name, not a call"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"f(1).g"}}}`, "program.tests.function: must be a python name"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"f..g"}}}`, "program.tests.function: must not be empty"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"f()().g"}}}`, "program.tests.function: must be a python name"},
	{`{"program":{"tests":{"code":"1","cases":[{}],"function":"f","functions":["g"]}}}`, "program.tests.functions: are for a check"},
	{`{"program":{"tests":{"code":"1","cases":[{}],"function":"f","class":true}}}`, "program.tests.class: is for a check"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"f","functions":["a.b"]}}}`, "program.tests.functions[0]: must be a python name"},
	{`{"program":{"tests":{"code":"1","check":"x","function":"F().g","functions":["h","F"]}}}`, "program.tests.functions[1]: F is a duplicate"},
	{`{"program":{"tests":{"code":"1","check":"x","functions":["h","h"]}}}`, "program.tests.functions[1]: h is a duplicate"},
	{`{"program":{"tests":{"code":"1","check":"x","functions":["candidate"]}}}`, "program.tests.functions[0]: candidate is a duplicate"},
	{`{"program":{"tests":{"code":"1","stdio":[{"stdin":"","stdout":"","memory":"1Mi"}]}}}`, "program.tests.stdio[0].memory: must be at least 16Mi"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1,"expected_exception":"E"}]}}}`, "program.tests.cases[0].expected_exception: excludes"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1,"weight":-1}]}}}`, "program.tests.cases[0].weight: must be 0 to 1000000"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1,"wall":"-1s"}]}}}`, "program.tests.cases[0].wall: must be 0s to 24h"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1}],"case_wall":"25h"}}}`, "program.tests.case_wall: must be 0s to 24h"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1,"match":"exact"}]}}}`, "program.tests.cases[0].match: must be python or json"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1}],"match":"exact"}}}`, "program.tests.match: must be python or json"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1,"tolerance":-1}]}}}`, "program.tests.cases[0].tolerance: must not be negative"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1}],"tolerance":1,"relative_tolerance":1}}}`, "program.tests.tolerance: is absolute and relative"},
	{`{"program":{"tests":{"code":"1","stdio":[{}],"tolerance":1}}}`, "program.tests.tolerance: is for cases"},
	{`{"program":{"tests":{"code":"1","stdio":[{}],"match":"json"}}}`, "program.tests.match: is for cases"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":` + strings.Repeat("9", 315_001) + `}]}}}`, "program.tests.cases[0].expected: is a whole number of 315001 digits"},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1}],"case_wall":2}}}`, "program.tests.case_wall: "},
	{`{"program":{"tests":{"code":"1","function":"f","cases":[{"expected":1,"kwargs":{"1":1}}]}}}`, "program.tests.cases[0].kwargs.1: must be a python name"},
	{`{"program":{"tests":{"code":"1","stdio":[{"stdin":"\u0000"}]}}}`, "program.tests.stdio[0].stdin: must not contain NUL"},
	// Files.
	{python(`"files":{"a.txt":{"text":""}}`), `files["a.txt"]: the path must be absolute, such as /workspace/a.txt`},
	{python(`"files":{"/workspace/../etc/passwd":{"text":""}}`), `files["/workspace/../etc/passwd"]: the path must be plain`},
	{python(`"files":{"/":{"text":""}}`), `files["/"]: the path must not be the root directory`},
	{python(`"files":{"":{"text":""}}`), `files[""]: the path must not be empty`},
	{python(`"files":{"/a\u0000b":{"text":""}}`), `files["/a\x00b"]: the path must not contain NUL bytes`},
	{python(`"files":{"/a":{"text":""},"/a/b/c":{"text":""}}`), `files["/a/b/c"]: lies below /a, which is also a file`},
	{python(`"files":{"/b":{"text":"","blob":"x"},"/a":{}}`), `files["/a"]: must have exactly one of text, base64, blob; it has 0`},
	{python(`"files":{"/a":{"text":"","base64":""}}`), `files["/a"]: must have exactly one of text, base64, blob; it has 2`},
	{python(`"files":{"/a":{"text":"\u0000"}}`), `files["/a"]: text must not contain NUL bytes; send other bytes as base64`},
	{python(`"files":{"/a":{"base64":"A"}}`), `files["/a"]: base64 is not valid`},
	{python(`"files":{"/a":{"blob":"sha256:12"}}`), `files["/a"]: blob must be sha256: and 64 lower-case hex digits`},
	{python(`"files":{"/` + strings.Repeat("x", 300) + `":{"text":""}}`), `files["/xxx`},
	// The rest.
	{python(`"name":"` + strings.Repeat("x", 257) + `"`), "name: is 257 bytes; at most 256"},
	{python(`"name":"\u001b[2J"`), "name: must not contain control characters"},
	{python(`"labels":{"":"x"}`), `labels[""]: the key must not be empty`},
	{python(`"labels":{"a":"x\u0000"}`), `labels.a: must not contain NUL bytes`},
	{python(`"labels":{` + manyLabels(65) + `}`), "labels: has 65 labels; at most 64"},
	{python(`"image":"py thon"`), "image: must be an image reference"},
	{python(`"image":"/python"`), "image: must be an image reference"},
	{python(`"priority":100000`), "priority: must be -1000 to 1000, not 100000"},
	{python(`"policy":7`), "policy: must be an object or the name of a stored policy"},
	{python(`"retry":{"max_attempts":-1}`), "retry.max_attempts: must be 1 to 100, not -1"},
	{python(`"retry":{"max_attempts":1000000}`), "retry.max_attempts: must be 1 to 100"},
	{python(`"retry":{"on":["oops"]}`), `retry.on: "oops" is not an outcome`},
	{python(`"retry":{"on":[null]}`), "retry.on[0]: must be a string, not null"},
	{python(`"retry":{"on":["lost"]}`), "retry.on: lost is never retried"},
	{python(`"expires_in":"-1s"`), "expires_in: must be 0s to 720h0m0s, not -1s"},
	{python(`"expires_in":"9000h"`), "expires_in: must be 0s to 720h0m0s"},
}

func manyLabels(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`"l%d":"x"`, i)
	}
	return strings.Join(out, ",")
}

// Valid values that resemble invalid ones.
func TestDecodeSpecTakesWhatIsRight(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"program":{"tests":{"stdio":[{"argv":["sh","-c","cat"],"stdin":"1","stdout":"1"}]}}}`, // nothing of it is the solution
		`{"program":{"tests":{"code":"","stdio":[{"argv":["true"]}]}}}`,
		`{"program":{"python":{"code":"1","variables":{"x":[{"a":1},{"a":1}],"y":{"a":{"a":1}}}}}}`,
		`{"program":{"python":{"code":"1","variables":{"n":-` + strings.Repeat("9", 4300) + `,"x":1.` + strings.Repeat("9", 5000) + `}}}}`,
	} {
		if _, err := DecodeSpec([]byte(in)); err != nil {
			t.Errorf("%.100s: %v", in, err)
		}
	}
}

func TestDecodeSpecNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range badSpecs {
		_, err := DecodeSpec([]byte(c.in))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s\n got: %v\nwant: %s…", Clip(c.in, 100), err, c.want)
		}
		if f := new(FieldError); err != nil && (!errors.As(err, &f) || !errors.Is(err, ErrInvalid)) {
			t.Errorf("%s: %T is not a FieldError", Clip(c.in, 100), err)
		}
	}
}

func TestValidateJudgesSpecsMadeInGo(t *testing.T) {
	t.Parallel()
	s := Spec{Program: Program{Python: &Python{Code: "\xff"}}}
	if err := s.Validate(); err == nil || err.Error() != "program.python.code: is not valid UTF-8" {
		t.Errorf("invalid UTF-8: %v", err)
	}
	s.Program.Python.Code = "1"
	if err := s.Validate(); err != nil {
		t.Errorf("zero image and attempts: %v", err)
	}
}

func BenchmarkDecodeSpec(b *testing.B) {
	b.SetBytes(int64(len(small)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSpec([]byte(small)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeSpecMinimal(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSpec([]byte(`{"program":{"python":{"code":"print(1+1)"}}}`)); err != nil {
			b.Fatal(err)
		}
	}
}

//go:build languages

package languages

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

var (
	url  = flag.String("languages.url", "", "a fleet with the image polyglot; none: one is started")
	only = flag.String("languages.only", "", "these languages only, with commas between them")
	page = flag.String("languages.write", "", "a page whose table is written anew, docs/languages.md")
)

const image = "polyglot"

// want is the expected result of a program.
type want struct {
	stdin    string
	stdout   string        // its whole output; "": any
	outcomes []job.Outcome // any of them
	code     int           // its exit code; 0: any, with these outcomes
	wall     string
}

// ends are the outcomes of a program that fails by itself: with a code, or by its own signal.
var ends = []job.Outcome{job.Failed, job.Signaled, job.Exception}

var wants = map[string]want{
	"hello":     {stdout: "hello\n", outcomes: []job.Outcome{job.Succeeded}},
	"echo":      {stdin: "one\ntwo é\n", stdout: "one\ntwo é\n", outcomes: []job.Outcome{job.Succeeded}},
	"exit":      {outcomes: []job.Outcome{job.Failed}, code: 3},
	"exception": {outcomes: ends},
	"assertion": {outcomes: ends},
	"timeout":   {outcomes: []job.Outcome{job.TimedOut}, wall: "3s"},
	"memory":    {outcomes: []job.Outcome{job.OutOfMemory}},
	"broken":    {outcomes: []job.Outcome{job.CompileError}},
	"files":     {stdout: "files\n", outcomes: []job.Outcome{job.Succeeded}},
}

// runners print their verdict on the tests.
var runners = []string{"gotest", "jest", "junit", "pytest"}

// asserts are languages with assertions that some compilers and machines omit: assertions in tests
// have to count.
var asserts = []string{"c", "cpp", "haskell", "java", "kotlin", "kotlinscript", "lua", "ocaml", "php", "pypy", "python", "rust", "scala"}

// shows reports whether each language must have this program; otherwise it need not.
func shows(l *language.Language, what string) bool {
	if what == "assertion" {
		return slices.Contains(asserts, l.Name)
	}
	switch l.Name {
	case "sqlite": // reads no standard input and cannot exit by itself; its memory is the database's
		return what != "echo" && what != "exit" && what != "memory"
	case "kotlinscript": // compiled each time, by Kotlin's compiler in the same process
		return what != "timeout" && what != "memory" && what != "files"
	}
	return !slices.Contains(runners, l.Name) || what != "echo" && what != "exit" && what != "memory"
}

func TestLanguages(t *testing.T) {
	c := fleet(t)
	t.Run("catalogue", func(t *testing.T) { testCatalogue(t, c) })
	t.Run("problems", func(t *testing.T) { testProblems(t, c) })
}

// testCatalogue runs the programs of every language, and writes the table if all end as expected.
func testCatalogue(t *testing.T, c *client.Client) {
	has := versions(t, c)
	table := make([]row, len(language.All()))
	for i, l := range language.All() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), l.Name) {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			all, err := read(l.Name)
			if err != nil {
				t.Fatal(err)
			}
			if v := has[l.Name]; v.Available == nil || !*v.Available || v.Version == "" {
				t.Errorf("the image does not say that it has it, and in which version: %+v", v)
			}
			for what := range wants {
				if shows(&l, what) != (all[what] != nil) {
					t.Errorf("%s: has a program: %v", what, all[what] != nil)
				}
			}
			r := row{language: l, version: has[l.Name].Version}
			for what, p := range all {
				t.Run(what, func(t *testing.T) {
					res := try(t, c, &l, what, p)
					if res.Compiled != nil && res.Compiled.Version != r.version {
						t.Errorf("it is compiled in version %q, and the image has %q", res.Compiled.Version, r.version)
					}
					r.note(what, res)
				})
			}
			table[i] = r
		})
	}
	if *page != "" && !t.Failed() && *only == "" {
		write(t, *page, table)
	}
}

// try runs a program, and hello twice: a compiled program is compiled once.
func try(t *testing.T, c *client.Client, l *language.Language, what string, p program) *job.Result {
	t.Helper()
	w := wants[what]
	if what == "broken" && l.Compile == nil {
		w.outcomes = ends
	}
	if slices.Contains(runners, l.Name) {
		w.stdout = ""
	}
	res := run(t, c, l, p, w)
	if !slices.Contains(w.outcomes, res.Outcome) || w.stdout != "" && res.Stdout.Text != w.stdout || w.code != 0 && (res.ExitCode == nil || *res.ExitCode != w.code) {
		t.Errorf("it ends with %s", said(res))
	}
	if what == "hello" && l.Compile != nil {
		again := run(t, c, l, p, w)
		if again.Compiled == nil || !again.Compiled.Cached {
			t.Errorf("it is compiled again: %+v", again.Compiled)
		}
		again.Compiled = res.Compiled
		return again
	}
	return res
}

func run(t *testing.T, c *client.Client, l *language.Language, p program, w want) *job.Result {
	t.Helper()
	code := job.Code{Language: l.Name, Stdin: w.stdin}
	if len(p) == 1 {
		code.Source = p[""]
	} else {
		code.Files = map[string]string{}
		for name, text := range p {
			if name == "" {
				name = l.File
			}
			code.Files[name] = text
		}
	}
	policy := map[string]any{"wall": "20s", "memory": "256Mi"}
	if w.wall != "" {
		policy["wall"] = w.wall
	}
	if l.Run.Memory > 256*job.MiB {
		policy["memory"] = l.Run.Memory
	}
	raw, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := c.Run(ctx, job.Spec{Image: image, Program: job.Program{Code: &code}, Policy: raw})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// fleet returns a client of a fleet with the image.
func fleet(t *testing.T) *client.Client {
	t.Helper()
	at := *url
	if at == "" {
		images := filepath.Join(testenv.RepoRoot(t), ".cache", "images")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		f, err := dev.StartFleet(ctx, dev.FleetConfig{
			Dir: t.TempDir(), Listen: "127.0.0.1:0", BinDir: testenv.Programs(t), Stderr: io.Discard, Log: slog.New(slog.DiscardHandler),
			ImageArchives: []string{filepath.Join(images, "python.tar"), filepath.Join(images, image+".tar")},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		at = f.URL()
	}
	c, err := client.New(at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// versions returns the fleet's versions of the image, once they are available.
func versions(t *testing.T, c *client.Client) map[string]api.Language {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		found, err := c.Languages(t.Context(), image)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]api.Language{}
		for _, l := range found.Languages {
			out[l.Name] = l
		}
		if found.Languages[0].Available != nil || time.Now().After(end) {
			return out
		}
	}
}

// row is the table's row of a language.
type row struct {
	language     language.Language
	version      string
	compile, run float64 // ms, of hello
}

func (r *row) note(what string, res *job.Result) {
	if what != "hello" {
		return
	}
	r.run = res.Usage.WallMS
	if res.Compiled != nil {
		r.compile = res.Compiled.Usage.WallMS
	}
}

// The table is between these lines of a page.
const begin, end = "<!-- table: make test-languages -->\n", "<!-- end of the table -->\n"

func write(t *testing.T, file string, table []row) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	var b strings.Builder
	b.WriteString("| `language` | also | file | version | compile, ms | run, ms |\n|---|---|---|---|---|---|\n")
	for _, r := range table {
		compile := "–"
		if r.language.Compile != nil {
			compile = fmt.Sprintf("%.0f", r.compile)
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s | %.0f |\n", r.language.Name, strings.Join(r.language.Aliases, ", "), r.language.File, r.version, compile, r.run)
	}
	if err := os.WriteFile(file, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

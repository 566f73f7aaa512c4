package language

import (
	"errors"
	"flag"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

var update = flag.Bool("update", false, "write the list of images/languages anew")

var (
	plainName   = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	placeholder = regexp.MustCompile(`\{\w*\}`)
)

// Names and aliases find one language each, and the rows are in the order that they are listed in.
func TestCatalogueIsInOrder(t *testing.T) {
	t.Parallel()
	if !slices.IsSortedFunc(catalogue, func(a, b Language) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the catalogue is not sorted by name")
	}
	owner := map[string]string{}
	for _, l := range catalogue {
		if !plainName.MatchString(l.Name) {
			t.Errorf("%q is no plain name", l.Name)
		}
		for _, n := range append([]string{l.Name}, l.Aliases...) {
			if n != strings.ToLower(strings.TrimSpace(n)) || n == "" {
				t.Errorf("%s: %q is not found in lower case", l.Name, n)
			}
			if owner[n] != "" {
				t.Errorf("%q is %s and %s", n, owner[n], l.Name)
			}
			owner[n] = l.Name
		}
	}
}

func TestRowsAreWhole(t *testing.T) {
	t.Parallel()
	for _, l := range catalogue {
		if l.Title == "" || l.File == "" || len(l.Version) == 0 || len(l.Run.Argv) == 0 {
			t.Errorf("%s lacks a title, a file, a version or how it is run", l.Name)
		}
		if !slices.Contains(l.Endings, path.Ext(l.File)) {
			t.Errorf("%s: %s has none of its endings %v", l.Name, l.File, l.Endings)
		}
		if l.Run.Wall != 0 {
			t.Errorf("%s: how long a run may take is for the policy to say", l.Name)
		}
		for _, s := range []*Step{l.Compile, &l.Run} {
			if s != nil {
				checkPlaceholders(t, l.Name, s)
			}
		}
		if l.Compile == nil {
			continue
		}
		if text := strings.Join(l.Compile.Argv, " "); !strings.Contains(text, "{out}") || !strings.Contains(text, "{main}") && !strings.Contains(text, "{files}") && !strings.Contains(text, "{package}") {
			t.Errorf("%s: its compiler is not told what to read or where to write", l.Name)
		}
		if l.Compile.Memory == 0 || l.Compile.Processes == 0 || l.Compile.Wall == 0 {
			t.Errorf("%s: compiling has no limits", l.Name)
		}
	}
}

func checkPlaceholders(t *testing.T, name string, s *Step) {
	t.Helper()
	for _, a := range s.Argv {
		for _, p := range placeholder.FindAllString(a, -1) {
			whole := p == "{files}" || p == "{package}"
			if !whole && !slices.Contains([]string{"{main}", "{stem}", "{class}", "{out}", "{memory}"}, p) && a != "--config={}" {
				t.Errorf("%s: %s is no placeholder", name, p)
			}
			if whole && a != p {
				t.Errorf("%s: %s is to be an argument of its own, not %q", name, p, a)
			}
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"cpp": "cpp", " C++ ": "cpp", "Python3": "python", "R": "r", "nodejs": "javascript", "go_test": "gotest", "sql": "sqlite", "c#": "csharp"} {
		if l, err := Find(name); err != nil || l.Name != want {
			t.Errorf("Find(%q) = %v, %v, want %s", name, l, err, want)
		}
	}
	_, err := Find("befunge")
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), `"befunge"`) || !strings.Contains(err.Error(), "cpp") {
		t.Errorf("an unknown language: %v", err)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	l := &Language{Endings: []string{".x", ".y"}}
	p := Program{
		Main: "app/Main.x", Files: []string{"app/Main.x", "z.x", "app/b.y", "app/data.txt", "-a.x", "@b.x"},
		Out: "/out", Memory: 200*job.MiB + 1,
	}
	for _, c := range []struct{ argv, want []string }{
		{[]string{"run", "{main}", "{stem}.js", "{class}"}, []string{"run", "app/Main.x", "app/Main.js", "app.Main"}},
		{[]string{"{files}", "-o", "{out}/a"}, []string{"./-a.x", "./@b.x", "app/b.y", "z.x", "app/Main.x", "-o", "/out/a"}},
		{[]string{"{package}"}, []string{"app/b.y", "app/Main.x"}},
		{[]string{"-Xmx{memory}m", "x:{out}:y"}, []string{"-Xmx200m", "x:/out:y"}},
	} {
		if diff := cmp.Diff(c.want, l.Expand(&Step{Argv: c.argv}, p)); diff != "" {
			t.Errorf("%v: %s", c.argv, diff)
		}
	}
	if got := l.Expand(&Step{Argv: []string{"{main}"}}, Program{Main: "-rf.x"}); got[0] != "./-rf.x" {
		t.Errorf("a file that looks like an option is given as %q", got[0])
	}
}

var bare = regexp.MustCompile(`^[\w./:=,+-]+$`)

// quoted is argv for a shell.
func quoted(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if out[i] = a; !bare.MatchString(a) {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// TestImagesAskForEachVersion checks the list of images/languages against the catalogue. The script asks for
// versions without a Go compiler, so it has a list of its own.
func TestImagesAskForEachVersion(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../images/languages", "<<'LANGUAGES'\n", "LANGUAGES\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	listed, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no list", file)
	}
	var want strings.Builder
	for _, l := range catalogue {
		want.WriteString(l.Name + " " + quoted(l.Version) + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+want.String()+end+tail), 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), listed); diff != "" {
		t.Errorf("go test ./pkg/language -update writes the list of %s: %s", file, diff)
	}
}

// TestArchivesAreOfTheseClasses checks that archives of classes are made with the class paths of their use.
// With other paths Java would ignore them silently.
func TestArchivesAreOfTheseClasses(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../images/polyglot/customize")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(string(text), "$lib/", kotlinHome+"/lib/")
	for name, classes := range map[string]string{"kotlinc": kotlinClasses, "scalac": scalaClasses, "junit": junitClasses} {
		if !strings.Contains(script, "="+classes+"\n") {
			t.Errorf("the archive of %s is not made with %s", name, classes)
		}
	}
	for _, l := range catalogue {
		for _, s := range []*Step{l.Compile, &l.Run} {
			if s == nil {
				continue
			}
			for _, a := range s.Argv {
				file, ok := strings.CutPrefix(a, "-XX:SharedArchiveFile=/usr/share/assay/")
				if name := strings.TrimSuffix(file, ".jsa"); ok && !strings.Contains(script, "\narchive "+name+" ") {
					t.Errorf("%s: nobody makes the archive %s", l.Name, name)
				}
			}
		}
	}
}

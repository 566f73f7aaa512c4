package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Sizes in lines, without tests. Packages have no limit.
const (
	fileLines     = 400
	functionLines = 70
)

// larger lists exceptions from these sizes, with a reason for each: a file, or a file and a function. An unneeded entry
// fails the test.
var larger = map[string]string{
	"pkg/job/decode.go":                       "one table: how each field is decoded, and what is said where that fails",
	"guest/python/assay_check.py":             "the program of a check's sandbox, in one file as it is embedded",
	"guest/python/assay_graph.py":             "both directions of one encoding, side by side",
	"guest/python/assay_solution.py":          "the program of a solution's sandbox, in one file as it is embedded",
	"guest/python/assay_wire.py":              "both ends of one encoding, side by side",
	"guest/python/harness.py":                 "the program of a snippet's sandbox, in one file as it is embedded",
	"guest/python/session.py":                 "the program of a session, in one file as it is embedded",
	"sdk/python/src/assay/models/__init__.py": "generated from the OpenAPI document",
	"sdk/python/src/assay/_async/_api.py":     "generated from the OpenAPI document",
	"sdk/python/src/assay/_sync/_api.py":      "generated from the OpenAPI document",

	"cmd/dispatcher/run.go run":           "wiring, in the order in which things stop",
	"test/bench/contention.go contention": "one scenario, told from its beginning to its end",
}

func TestSizes(t *testing.T) {
	t.Parallel()
	src := sources(t)
	too := map[string]string{}
	for name, f := range src {
		if isTest(name) {
			continue
		}
		if f.lines > fileLines {
			too[name] = fmt.Sprintf("%d lines; a file has %d at most", f.lines, fileLines)
		}
		for _, fn := range f.functions() {
			if fn.lines > functionLines {
				too[name+" "+fn.name] = fmt.Sprintf("%d lines; a function has %d at most", fn.lines, functionLines)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(too)) {
		if larger[name] == "" {
			t.Errorf("%s: %s: divide it, or argue for it in the list of internal/arch/shape_test.go", name, too[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(larger)) {
		if too[name] == "" {
			t.Errorf("%s is no larger than others: take it from the list of internal/arch/shape_test.go", name)
		}
	}
}

// isTest reports whether a file is a test or a test suite.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_test.py") || slices.Contains(testOnly, path.Dir(name))
}

// TestCommentsNameTheirOwn checks that no doc comment starts with the name of another declaration.
func TestCommentsNameTheirOwn(t *testing.T) {
	t.Parallel()
	src := sources(t)
	declared := map[string]map[string]bool{} // by folder
	for name, f := range src {
		if f.ast == nil {
			continue
		}
		dir := path.Dir(name)
		if declared[dir] == nil {
			declared[dir] = map[string]bool{}
		}
		for _, d := range f.documented() {
			for _, n := range d.names {
				declared[dir][n] = true
			}
		}
	}
	for name, f := range src {
		if f.ast == nil {
			continue
		}
		for _, d := range f.documented() {
			if about := subject(d.doc); about != "" && declared[path.Dir(name)][about] && !slices.Contains(d.names, about) {
				t.Errorf("%s:%d: the comment of %s is about %s", name, f.set.Position(d.pos).Line, strings.Join(d.names, ", "), about)
			}
		}
	}
}

// subject returns the identifier that a comment is about: "x is …", "x returns …", and so on.
func subject(doc *ast.CommentGroup) string {
	words := strings.Fields(doc.Text())
	if len(words) < 2 {
		return ""
	}
	verb := words[1]
	if strings.HasSuffix(verb, "s") && !strings.HasSuffix(verb, "'s") || verb == "are" {
		return words[0]
	}
	return ""
}

// source is a file of ours; ast is nil unless it is Go.
type source struct {
	lines int
	text  string
	set   *token.FileSet
	ast   *ast.File
}

// sources returns all Go and Python files of the tree, by name. They are read once.
func sources(t *testing.T) map[string]*source {
	t.Helper()
	found, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var readSources = sync.OnceValues(func() (map[string]*source, error) {
	found := map[string]*source{}
	err := walk(func(name, file string) error {
		ext := path.Ext(name)
		if ext != ".go" && ext != ".py" {
			return nil
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		f := &source{text: string(raw), lines: bytes.Count(raw, []byte("\n")), set: token.NewFileSet()}
		if ext == ".go" {
			f.ast, err = parser.ParseFile(f.set, name, raw, parser.ParseComments|parser.SkipObjectResolution)
		}
		found[name] = f
		return err
	})
	return found, err
})

// walk calls f with each file of the tree: its name there, and its path from here. It skips hidden folders and bin.
func walk(f func(name, file string) error) error {
	root := filepath.Join("..", "..")
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "__pycache__"):
			return fs.SkipDir
		case d.Type().IsRegular():
			return f(filepath.ToSlash(name), file)
		}
		return nil
	})
}

type function struct {
	name  string
	lines int
}

// functions returns the functions of a Go file. Methods have their own name, without the receiver.
func (f *source) functions() (all []function) {
	if f.ast == nil {
		return nil
	}
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			all = append(all, function{fn.Name.Name, f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1})
		}
	}
	return all
}

// documented is a declaration with its doc comment.
type documented struct {
	names []string
	doc   *ast.CommentGroup
	pos   token.Pos
}

func (f *source) documented() (all []documented) {
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if strings.HasSuffix(f.set.Position(d.Pos()).Filename, "_test.go") && strings.HasPrefix(d.Name.Name, "Test") {
				continue // comments of tests are about the tested subject
			}
			all = append(all, documented{[]string{d.Name.Name}, d.Doc, d.Pos()})
		case *ast.GenDecl:
			var group []string
			for _, spec := range d.Specs {
				names, doc := ofSpec(spec)
				group = append(group, names...)
				all = append(all, documented{names, doc, spec.Pos()})
			}
			all = append(all, documented{group, d.Doc, d.Pos()})
		}
	}
	return all
}

func ofSpec(spec ast.Spec) (names []string, doc *ast.CommentGroup) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return []string{s.Name.Name}, s.Doc
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names = append(names, n.Name)
		}
		return names, s.Doc
	}
	return nil, nil
}

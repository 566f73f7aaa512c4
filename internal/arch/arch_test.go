package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/assay-run/assay"

// pkg is a package in the output of go list. Our own paths are written ./pkg/job, because the standard library has an
// internal/ too.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func TestArchitecture(t *testing.T) {
	pkgs, std := load(t)
	if len(pkgs) < 10 {
		t.Fatalf("go list found %d packages only", len(pkgs))
	}
	for _, problem := range check(pkgs, std) {
		t.Error(problem)
	}
}

// load returns our packages, and a function that reports whether a path is the standard library's.
func load(t *testing.T) ([]pkg, func(string) bool) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	touch(t, root)
	ours := golist(t, root, "./...")
	names := map[string]bool{}
	for _, p := range golist(t, root, "std") {
		names[p.ImportPath] = true
	}
	return ours, func(path string) bool { return names[path] || strings.HasPrefix(path, "vendor/") || path == "C" }
}

// touch reads every Go file, so that the go command does not reuse a cached pass after a change: it cannot see which
// files go list has read.
func touch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			return nil
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") || d.Name() == "go.mod":
			_, _ = os.Stat(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func golist(t *testing.T, dir, pattern string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,Deps", pattern)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", pattern, err, stderr.Bytes())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = short(p.ImportPath)
		for _, l := range [][]string{p.Imports, p.TestImports, p.XTestImports, p.Deps} {
			for i := range l {
				l[i] = short(l[i])
			}
		}
		pkgs = append(pkgs, p)
	}
}

// short writes our own paths as ./pkg/job, and returns other paths unchanged.
func short(path string) string {
	if own, ok := strings.CutPrefix(path, module+"/"); ok {
		return "./" + own
	}
	return path
}

// check returns the violations in the imports of pkgs.
func check(pkgs []pkg, std func(string) bool) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, "./")
		allowed, known := table[name]
		if !known {
			report("%s: a new package? Add it to the table in internal/arch, with what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			own, isOurs := strings.CutPrefix(imp, "./")
			if isOurs && !slices.Contains(allowed.imports, own) {
				report("%s (%s) must not import %s: arrows point inward; see the table in internal/arch", name, allowed.is, own)
			}
			if reason, only := stdOnly[name]; only && !isOurs && !std(imp) {
				report("%s must not import %s: %s", name, imp, reason)
			}
			for _, h := range homes {
				if under(imp, h.prefix) && !slices.ContainsFunc(h.in, func(in string) bool { return within(name, in) }) {
					report("%s must not import %s, whose home is %v: %s", name, imp, h.in, h.reason)
				}
			}
		}
		for _, r := range reaches {
			if r.from != name {
				continue
			}
			for _, dep := range p.Deps {
				if slices.ContainsFunc(r.never, func(n string) bool { return under(dep, n) }) {
					report("%s must not link %s (go list -deps says how it does): %s", name, dep, r.reason)
				}
			}
		}
	}
	return problems
}

// under reports whether path is prefix or lies beneath it.
func under(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// within is under for patterns such as cmd/...
func within(path, pattern string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return under(path, dir)
	}
	return path == pattern
}
